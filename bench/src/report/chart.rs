//! The ratios as bars, by hand: one bar per measure that has a floor, with a mark where its goal is.

use std::fmt::Write as _;

use super::{Goal, Row, Verdict};

const LINE: usize = 22;
const LABELS: usize = 490;
const RATIOS: usize = 40;
const BARS: f64 = 380.0;
const GOALS: usize = 60;
/// Ratios beyond this are cut: the number beside the bar says the rest.
const RATIO_SHOWN: f64 = 4.0;

const PASS: &str = "#2e7d32";
const MISS: &str = "#c62828";
const TOLD: &str = "#90a4ae";

/// Where bars begin.
const ZERO: usize = LABELS + RATIOS + 8;
/// Lines above the bars: the title, and what the colours mean.
const HEAD: usize = 2;

/// The whole picture.
pub(super) fn draw(rows: &[Row]) -> String {
    let bars: Vec<(&Row, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, row.ratio()?)))
        .filter(|(_, ratio)| ratio.is_finite())
        .collect();
    let width = ZERO + BARS as usize + GOALS;
    let height = LINE * (bars.len() + HEAD + 1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    head(&mut svg);
    let (floor, bottom) = (ZERO as f64 + length(1.0), height - LINE / 2);
    // Behind the bars. Writing into a string cannot fail.
    let _ = writeln!(
        svg,
        "<path d=\"M{floor:.1} {} V{bottom}\" stroke=\"#b0bec5\" stroke-dasharray=\"3 3\"/>",
        LINE * HEAD,
    );
    for (index, (row, ratio)) in bars.into_iter().enumerate() {
        bar(&mut svg, row, ratio, LINE * (index + HEAD) + 6);
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(svg: &mut String) {
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"16\" font-weight=\"bold\">Ours by the floor's, or by our own at another size</text>"
    );
    let keys = [
        (PASS, "meets its goal"),
        (MISS, "misses it"),
        (TOLD, "told"),
    ];
    for (place, (colour, key)) in keys.into_iter().enumerate() {
        let left = 8 + 130 * place;
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
        ZERO as f64 + length(1.0),
        ZERO + BARS as usize,
    );
}

fn length(ratio: f64) -> f64 {
    ratio.clamp(0.0, RATIO_SHOWN) / RATIO_SHOWN * BARS
}

fn bar(svg: &mut String, row: &Row, ratio: f64, top: usize) {
    let colour = match row.verdict() {
        Verdict::Pass => PASS,
        Verdict::Miss => MISS,
        Verdict::Told | Verdict::NotMeasured => TOLD,
    };
    let label = escaped(&format!("{} {}", row.work, row.what));
    let base = top + 13;
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{base}\">{label}</text>\
         <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{ratio:.2}</text>\
         <rect x=\"{ZERO}\" y=\"{top}\" width=\"{:.1}\" height=\"16\" fill=\"{colour}\"/>",
        LABELS + RATIOS,
        length(ratio),
    );
    if let Goal::RatioAtMost(goal) | Goal::RatioAtLeast(goal) = row.goal {
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{}\" width=\"2\" height=\"20\" fill=\"#000\"/>\
             <text x=\"{}\" y=\"{base}\">{}</text>",
            ZERO as f64 + length(goal),
            top - 2,
            ZERO + BARS as usize,
            escaped(&row.goal()),
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
