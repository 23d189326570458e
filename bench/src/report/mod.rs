//! The report: `report.md` with every measure and `report.svg` with the ratios.

mod chart;
mod row;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

pub(crate) use row::{Compared, Goal, Row, Verdict};

/// Writes both files into the folder.
pub(crate) fn write(folder: &Path, rows: &[Row], conditions: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let files = [
        ("report.md", markdown(rows, conditions)),
        ("report.svg", chart::draw(rows)),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn markdown(rows: &[Row], conditions: &str) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let mut text = format!(
        "# Benchmark report\n\n{conditions}\n\nAll figures are from one run on one machine: compare the ratios, not the \
         times. Goals: {} met, {} missed. {} measures are not judged, {} were not measured.\n\n\
         ![Ratios](report.svg)\n\n\
         | workload | measure | ours | reference | unit | compared with | ratio | goal | verdict |\n\
         | --- | --- | ---: | ---: | --- | --- | ---: | --- | --- |\n",
        count(Verdict::Met),
        count(Verdict::Missed),
        count(Verdict::NotJudged),
        count(Verdict::NotMeasured),
    );
    for row in rows {
        let ratio = row.ratio();
        let ratio = ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut verdict = row.verdict().word().to_owned();
        if !row.note.is_empty() {
            verdict = format!("{verdict}: {}", row.note.replace(['|', '\n'], " "));
        }
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {ratio} | {} | {verdict} |",
            row.workload,
            row.measure,
            row::optional_figure(row.ours),
            row::optional_figure(row.reference),
            row.unit,
            row.compared_with,
            row.goal_text(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Compared, Goal, Row, markdown};

    #[test]
    fn report_contains_every_row() {
        let figures = Compared {
            ours: 1.0,
            reference: 0.5,
        };
        let rows = [
            Row::compared("CPU", "s", figures, Goal::RatioAtMost(2.0)).of_workload("W1"),
            Row::missing("tool loop", "no tool").of_workload("W2"),
        ];
        let text = markdown(&rows, "Conditions.");
        assert!(text.contains("| W1 | CPU | 1.00 | 0.500 | s | floor | 2.00 | ≤ 2 × | met |"));
        assert!(text.contains("| W2 | tool loop | – | – |  |  | – | – | not measured: no tool |"));
        assert!(text.contains("Goals: 1 met, 0 missed."));
    }
}
