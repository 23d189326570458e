//! One measure: figures, goal and verdict.

/// What a measure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Upper limit of ours divided by the reference.
    RatioAtMost(f64),
    /// Lower limit of ours divided by the reference.
    RatioAtLeast(f64),
    /// Upper limit of our figure.
    AtMost(f64),
    /// Lower limit of our figure.
    AtLeast(f64),
    /// The measure is reported, not judged.
    None,
}

/// Whether a goal was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    NotJudged,
    NotMeasured,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::NotJudged => "not judged",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Our figure beside the one it is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Compared {
    pub(crate) ours: f64,
    pub(crate) reference: f64,
}

/// A smaller reference is noise, and a ratio to it means nothing.
const SMALLEST_REFERENCE: f64 = 1e-9;

/// The usual reference.
pub(super) const FLOOR: &str = "floor";

/// One line of the report.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(super) workload: String,
    pub(super) measure: String,
    pub(super) unit: &'static str,
    pub(super) ours: Option<f64>,
    pub(super) reference: Option<f64>,
    /// What the reference is; empty when there is none.
    pub(super) compared_with: &'static str,
    pub(super) goal: Goal,
    pub(super) note: String,
}

impl Row {
    /// A measure compared with the floor's, unless [`Row::against`] names another reference.
    pub(crate) fn compared(
        measure: impl Into<String>,
        unit: &'static str,
        figures: Compared,
        goal: Goal,
    ) -> Self {
        Self {
            reference: Some(figures.reference),
            compared_with: FLOOR,
            ..Self::single(measure, unit, figures.ours, goal)
        }
    }

    /// A measure without a reference.
    pub(crate) fn single(
        measure: impl Into<String>,
        unit: &'static str,
        ours: f64,
        goal: Goal,
    ) -> Self {
        Self {
            ours: Some(ours),
            unit,
            goal,
            ..Self::missing(measure, "")
        }
    }

    /// A measure that could not be taken.
    pub(crate) fn missing(measure: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            workload: String::new(),
            measure: measure.into(),
            unit: "",
            ours: None,
            reference: None,
            compared_with: "",
            goal: Goal::None,
            note: reason.into(),
        }
    }

    /// Names the reference.
    pub(crate) fn against(mut self, reference: &'static str) -> Self {
        self.compared_with = reference;
        self
    }

    /// Adds a remark.
    pub(crate) fn note(mut self, note: impl AsRef<str>) -> Self {
        let note = note.as_ref();
        if !self.note.is_empty() && !note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(note);
        self
    }

    /// Names the workload that took the measure.
    pub(crate) fn of_workload(mut self, workload: impl Into<String>) -> Self {
        self.workload = workload.into();
        self
    }

    /// Reports a comparison with the floor without judging it.
    pub(crate) fn without_floor_goal(mut self) -> Self {
        if self.compared_with == FLOOR {
            self.goal = Goal::None;
        }
        self
    }

    /// Ours divided by the reference; `None` without a reference, or when it is not above zero.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let reference = self.reference.filter(|value| *value > SMALLEST_REFERENCE)?;
        Some(self.ours? / reference)
    }

    /// A figure that is not a number never meets a goal.
    pub(crate) fn verdict(&self) -> Verdict {
        let Some(ours) = self.ours else {
            return Verdict::NotMeasured;
        };
        let ratio = self.ratio().unwrap_or(f64::NAN);
        let met = match self.goal {
            Goal::RatioAtMost(limit) => ratio <= limit,
            Goal::RatioAtLeast(limit) => ratio >= limit,
            Goal::AtMost(limit) => ours <= limit,
            Goal::AtLeast(limit) => ours >= limit,
            Goal::None => return Verdict::NotJudged,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }

    pub(super) fn goal_text(&self) -> String {
        match self.goal {
            Goal::RatioAtMost(limit) => format!("≤ {} ×", two_digits(limit)),
            Goal::RatioAtLeast(limit) => format!("≥ {} ×", two_digits(limit)),
            Goal::AtMost(limit) => format!("≤ {}", figure(limit)),
            Goal::AtLeast(limit) => format!("≥ {}", figure(limit)),
            Goal::None => "–".to_owned(),
        }
    }

    /// The row as a line for the terminal.
    pub(crate) fn line(&self) -> String {
        format!(
            "{:<7} {:<66} {:>10} {:>10} {:<9} {:<8} {:>8} {:>9} {} {}",
            self.workload,
            self.measure,
            optional_figure(self.ours),
            optional_figure(self.reference),
            self.unit,
            self.compared_with,
            self.ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2} ×")),
            self.goal_text(),
            self.verdict().word(),
            self.note
        )
    }
}

pub(super) fn optional_figure(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}

fn two_digits(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A number with about three significant digits.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        0.0 => 0,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::{Compared, Goal, Row, Verdict};

    fn compared(ours: f64, reference: f64, goal: Goal) -> Row {
        Row::compared("x", "ms", Compared { ours, reference }, goal)
    }

    #[test]
    fn judges_a_row_by_its_goal() {
        let cases = [
            (compared(3.0, 2.0, Goal::RatioAtMost(2.0)), Verdict::Met),
            (compared(5.0, 2.0, Goal::RatioAtMost(2.0)), Verdict::Missed),
            (compared(1.0, 2.0, Goal::RatioAtLeast(0.6)), Verdict::Missed),
            (compared(0.0, 0.0, Goal::RatioAtMost(2.0)), Verdict::Missed),
            (compared(5.0, 2.0, Goal::None), Verdict::NotJudged),
            (Row::single("x", "", 0.0, Goal::AtMost(0.0)), Verdict::Met),
            (
                Row::single("x", "", 9.0, Goal::AtLeast(10.0)),
                Verdict::Missed,
            ),
            (Row::missing("x", "no tool"), Verdict::NotMeasured),
        ];
        for (row, verdict) in cases {
            assert_eq!(row.verdict(), verdict, "{row:?}");
        }
    }

    #[test]
    fn drops_only_goals_by_the_floor() {
        let row = compared(5.0, 2.0, Goal::RatioAtMost(2.0));
        let by_floor = row.clone().without_floor_goal();
        assert_eq!(by_floor.verdict(), Verdict::NotJudged);
        let by_other = row.against("SQLite").without_floor_goal();
        assert_eq!(by_other.verdict(), Verdict::Missed);
    }

    #[test]
    fn has_no_ratio_to_a_reference_of_zero_or_less() {
        for reference in [1e-17, 0.0, -0.3] {
            assert_eq!(compared(0.1, reference, Goal::None).ratio(), None);
        }
    }
}
