//! The ratios as an SVG bar chart: one bar per measure with a reference, and a mark at its goal.

use std::fmt::Write as _;

use super::row::FLOOR;
use super::{Goal, Row, Verdict};

const LINE_HEIGHT: usize = 22;
const LABEL_WIDTH: usize = 520;
const RATIO_WIDTH: usize = 40;
const BAR_WIDTH: f64 = 380.0;
const GOAL_WIDTH: usize = 60;
/// The bar of a larger ratio ends here; the number beside it is complete.
const MAX_RATIO: f64 = 4.0;

const MET: &str = "#2e7d32";
const MISSED: &str = "#c62828";
const NOT_JUDGED: &str = "#90a4ae";

/// The left edge of the bars.
const ORIGIN: usize = LABEL_WIDTH + RATIO_WIDTH + 8;
/// Lines above the bars: title and legend.
const HEADER_LINES: usize = 2;

/// A measure and its ratio.
struct Bar<'a> {
    row: &'a Row,
    ratio: f64,
}

/// The complete SVG document.
pub(super) fn draw(rows: &[Row]) -> String {
    let bars: Vec<Bar<'_>> = rows
        .iter()
        .filter_map(|row| {
            let ratio = row.ratio().filter(|ratio| ratio.is_finite())?;
            Some(Bar { row, ratio })
        })
        .collect();
    let width = ORIGIN + BAR_WIDTH as usize + GOAL_WIDTH;
    let height = LINE_HEIGHT * (bars.len() + HEADER_LINES + 1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    header(&mut svg);
    let (one, bottom) = (ORIGIN as f64 + length(1.0), height - LINE_HEIGHT / 2);
    // Drawn first, behind the bars. Writing into a string cannot fail.
    let _ = writeln!(
        svg,
        "<path d=\"M{one:.1} {} V{bottom}\" stroke=\"#b0bec5\" stroke-dasharray=\"3 3\"/>",
        LINE_HEIGHT * HEADER_LINES,
    );
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(&mut svg, bar, LINE_HEIGHT * (index + HEADER_LINES) + 6);
    }
    svg.push_str("</svg>\n");
    svg
}

fn header(svg: &mut String) {
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"16\" font-weight=\"bold\">Ours divided by the reference</text>"
    );
    let keys = [
        (MET, "goal met"),
        (MISSED, "goal missed"),
        (NOT_JUDGED, "not judged"),
    ];
    for (position, (colour, key)) in keys.into_iter().enumerate() {
        let left = 8 + 130 * position;
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"27\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"37\">{key}</text>",
            left + 18,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"37\" text-anchor=\"middle\" fill=\"#607d8b\">1 ×</text>\
         <text x=\"{}\" y=\"37\">| goal</text>",
        ORIGIN as f64 + length(1.0),
        ORIGIN + BAR_WIDTH as usize,
    );
}

fn length(ratio: f64) -> f64 {
    ratio.clamp(0.0, MAX_RATIO) / MAX_RATIO * BAR_WIDTH
}

fn draw_bar(svg: &mut String, bar: &Bar<'_>, top: usize) {
    let Bar { row, ratio } = bar;
    let colour = match row.verdict() {
        Verdict::Met => MET,
        Verdict::Missed => MISSED,
        Verdict::NotJudged | Verdict::NotMeasured => NOT_JUDGED,
    };
    let mut label = format!("{} {}", row.workload, row.measure);
    if row.compared_with != FLOOR {
        // Writing into a string cannot fail.
        let _ = write!(label, " (by {})", row.compared_with);
    }
    let label = escape(&label);
    let base = top + 13;
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{base}\">{label}</text>\
         <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{ratio:.2}</text>\
         <rect x=\"{ORIGIN}\" y=\"{top}\" width=\"{:.1}\" height=\"16\" fill=\"{colour}\"/>",
        LABEL_WIDTH + RATIO_WIDTH,
        length(*ratio),
    );
    if let Goal::RatioAtMost(goal) | Goal::RatioAtLeast(goal) = row.goal {
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{}\" width=\"2\" height=\"20\" fill=\"#000\"/>\
             <text x=\"{}\" y=\"{base}\">{}</text>",
            ORIGIN as f64 + length(goal),
            top - 2,
            ORIGIN + BAR_WIDTH as usize,
            escape(&row.goal_text()),
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
