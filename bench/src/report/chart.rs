//! The ratios as bars, by hand: one bar per measure that has a floor, with a mark where its goal is.

use std::fmt::Write as _;

use super::{Goal, Row, Verdict};

const LINE: usize = 22;
const LABELS: usize = 460;
const BARS: f64 = 380.0;
const TAIL: usize = 90;
/// Ratios beyond this are cut: the number beside the bar says the rest.
const RATIO_SHOWN: f64 = 4.0;

/// The whole picture.
pub(super) fn draw(rows: &[Row]) -> String {
    let bars: Vec<(&Row, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, row.ratio()?)))
        .filter(|(_, ratio)| ratio.is_finite())
        .collect();
    let width = LABELS + BARS as usize + TAIL;
    let height = LINE * (bars.len() + 2);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"16\" font-weight=\"bold\">Ratio to the floor (| = goal)</text>\n"
    );
    for (index, (row, ratio)) in bars.into_iter().enumerate() {
        bar(&mut svg, row, ratio, LINE * (index + 1) + 6);
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, row: &Row, ratio: f64, top: usize) {
    let length = |ratio: f64| ratio.clamp(0.0, RATIO_SHOWN) / RATIO_SHOWN * BARS;
    let colour = match row.verdict() {
        Verdict::Pass => "#2e7d32",
        Verdict::Miss => "#c62828",
        Verdict::Told | Verdict::NotMeasured => "#546e7a",
    };
    let label = escaped(&format!("{} {}", row.work, row.what));
    let base = top + 13;
    // Writing into a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{base}\">{label}</text>\
         <rect x=\"{LABELS}\" y=\"{top}\" width=\"{:.1}\" height=\"16\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{base}\">{ratio:.2}</text>",
        length(ratio),
        LABELS as f64 + length(ratio) + 6.0,
    );
    if let Goal::RatioAtMost(goal) | Goal::RatioAtLeast(goal) = row.goal {
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{}\" width=\"2\" height=\"20\" fill=\"#000\"/>",
            LABELS as f64 + length(goal),
            top - 2,
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
