//! What was measured, against what, and whether it is enough: `report.md` and `report.svg`.

mod chart;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

/// What a measure is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Ours divided by the floor's.
    RatioAtMost(f64),
    /// Ours divided by the floor's.
    RatioAtLeast(f64),
    /// Ours alone.
    AtMost(f64),
    /// Ours alone.
    AtLeast(f64),
    /// Nothing: it is told, not judged.
    Told,
}

/// Less than anything that is measured here.
const NOTHING: f64 = 1e-9;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Miss,
    Told,
    NotMeasured,
}

/// One line of the report.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) work: &'static str,
    pub(crate) what: String,
    unit: &'static str,
    ours: Option<f64>,
    floor: Option<f64>,
    goal: Goal,
    note: String,
}

impl Row {
    /// A measure of ours beside the floor's.
    pub(crate) fn beside(
        work: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        (ours, floor): (f64, f64),
        goal: Goal,
    ) -> Self {
        Self {
            work,
            what: what.into(),
            unit,
            ours: Some(ours),
            floor: Some(floor),
            goal,
            note: String::new(),
        }
    }

    /// A measure of ours alone.
    pub(crate) fn alone(
        work: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        ours: f64,
        goal: Goal,
    ) -> Self {
        Self {
            work,
            what: what.into(),
            unit,
            ours: Some(ours),
            floor: None,
            goal,
            note: String::new(),
        }
    }

    /// A measure that was not taken, and why.
    pub(crate) fn missing(work: &'static str, what: &str, why: impl Into<String>) -> Self {
        Self {
            work,
            what: what.to_owned(),
            unit: "",
            ours: None,
            floor: None,
            goal: Goal::Told,
            note: why.into(),
        }
    }

    /// Says something beside the figures, and beside what was said before.
    pub(crate) fn noted(mut self, note: impl AsRef<str>) -> Self {
        let note = note.as_ref();
        if !self.note.is_empty() && !note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(note);
        self
    }

    /// Ours divided by the floor's.
    pub(crate) fn ratio(&self) -> Option<f64> {
        // A difference of two floors may be nothing, next to it, or less.
        let floor = self.floor.filter(|floor| *floor > NOTHING)?;
        Some(self.ours? / floor)
    }

    /// A figure that is not a number never passes.
    pub(crate) fn verdict(&self) -> Verdict {
        let Some(ours) = self.ours else {
            return Verdict::NotMeasured;
        };
        let ratio = self.ratio().unwrap_or(f64::NAN);
        let enough = match self.goal {
            Goal::RatioAtMost(most) => ratio <= most,
            Goal::RatioAtLeast(least) => ratio >= least,
            Goal::AtMost(most) => ours <= most,
            Goal::AtLeast(least) => ours >= least,
            Goal::Told => return Verdict::Told,
        };
        if enough { Verdict::Pass } else { Verdict::Miss }
    }

    fn goal(&self) -> String {
        match self.goal {
            Goal::RatioAtMost(most) => format!("≤ {} ×", rounded(most)),
            Goal::RatioAtLeast(least) => format!("≥ {} ×", rounded(least)),
            Goal::AtMost(most) => format!("≤ {}", figure(most)),
            Goal::AtLeast(least) => format!("≥ {}", figure(least)),
            Goal::Told => "–".to_owned(),
        }
    }

    /// The row as a line for people who watch.
    pub(crate) fn line(&self) -> String {
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
        format!(
            "{:<7} {:<58} {:>10} {:>10} {:<13} {:>8} {:>9} {} {}",
            self.work,
            self.what,
            shown(self.ours),
            shown(self.floor),
            self.unit,
            self.ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2} ×")),
            self.goal(),
            self.verdict().word(),
            self.note
        )
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Miss => "MISS",
            Self::Told => "told",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Writes both files into the folder.
pub(crate) fn write(folder: &Path, rows: &[Row], circumstances: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let files = [
        ("report.md", markdown(rows, circumstances)),
        ("report.svg", chart::draw(rows)),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn markdown(rows: &[Row], circumstances: &str) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let mut text = format!(
        "# Measurements\n\n{circumstances}\n\nAll figures are from one run on one machine: read the ratios, not the \
         times. {} pass, {} miss, {} told, {} not measured.\n\n![Ratios to the floor](report.svg)\n\n\
         | workload | measure | ours | floor | unit | ratio | goal | |\n| --- | --- | ---: | ---: | --- | ---: | --- | --- |\n",
        count(Verdict::Pass),
        count(Verdict::Miss),
        count(Verdict::Told),
        count(Verdict::NotMeasured),
    );
    for row in rows {
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
        let ratio = row.ratio();
        let ratio = ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let verdict = row.verdict().word();
        let verdict = if row.note.is_empty() {
            verdict.to_owned()
        } else {
            format!("{verdict}: {}", row.note.replace(['|', '\n'], " "))
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {ratio} | {} | {verdict} |",
            row.work,
            row.what,
            shown(row.ours),
            shown(row.floor),
            row.unit,
            row.goal(),
        );
    }
    text
}

/// A goal as people write it: no digits that say nothing.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A number with as many digits as mean something.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::{Goal, Row, Verdict, markdown};

    #[test]
    fn a_row_is_judged_by_its_goal() {
        let beside = |ours, floor, goal| Row::beside("W0", "x", "ms", (ours, floor), goal);
        let cases = [
            (beside(3.0, 2.0, Goal::RatioAtMost(2.0)), Verdict::Pass),
            (beside(5.0, 2.0, Goal::RatioAtMost(2.0)), Verdict::Miss),
            (beside(1.0, 2.0, Goal::RatioAtLeast(0.6)), Verdict::Miss),
            (beside(0.0, 0.0, Goal::RatioAtMost(2.0)), Verdict::Miss),
            (beside(5.0, 2.0, Goal::Told), Verdict::Told),
            (
                Row::alone("W0", "x", "", 0.0, Goal::AtMost(0.0)),
                Verdict::Pass,
            ),
            (
                Row::alone("W0", "x", "", 9.0, Goal::AtLeast(10.0)),
                Verdict::Miss,
            ),
            (Row::missing("W0", "x", "no tool"), Verdict::NotMeasured),
        ];
        for (row, verdict) in cases {
            assert_eq!(row.verdict(), verdict, "{row:?}");
        }
        for nothing in [1e-17, 0.0, -0.3] {
            assert_eq!(beside(0.1, nothing, Goal::Told).ratio(), None);
        }
    }

    #[test]
    fn the_report_holds_every_row() {
        let rows = [
            Row::beside("W1", "CPU", "s", (1.0, 0.5), Goal::RatioAtMost(2.0)),
            Row::missing("W2", "tool loop", "no tool"),
        ];
        let text = markdown(&rows, "Here.");
        assert!(text.contains("| W1 | CPU | 1.00 | 0.500 | s | 2.00 | ≤ 2 × | pass |"));
        assert!(text.contains("| W2 | tool loop | – | – |  | – | – | not measured: no tool |"));
    }
}
