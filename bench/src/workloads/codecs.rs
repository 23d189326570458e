//! Decoders and encoders without HTTP, measured by the program `runloom-bench-codecs`.

use std::process::Command;

use anyhow::Context;

#[path = "../codecs/figures.rs"]
mod figures;

use figures::Figures;

use crate::report::{Compared, Goal, Row};

/// Built beside this program.
const PROGRAM: &str = "runloom-bench-codecs";

/// A delta of a long response may cost this much more than one of a short response.
const MAX_GROWTH: f64 = 1.2;

pub(super) fn measure() -> anyhow::Result<Vec<Row>> {
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    let output = Command::new(&program)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    anyhow::ensure!(
        output.status.success(),
        "{PROGRAM}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    rows(&output.stdout)
}

fn rows(json: &[u8]) -> anyhow::Result<Vec<Row>> {
    let figures: Figures = serde_json::from_slice(json)?;
    let not_judged = |measure: String, unit, value| Row::single(measure, unit, value, Goal::None);
    let mut rows = Vec::new();
    for decoder in figures.decoders {
        let name = &decoder.name;
        rows.push(not_judged(
            format!("{name}: decoding without HTTP"),
            "MB/s",
            decoder.mb_per_second,
        ));
        rows.push(not_judged(
            format!("{name}: allocations per delta"),
            "",
            decoder.allocations_per_delta,
        ));
        let per_delta = Compared {
            ours: decoder.long_ns,
            reference: decoder.short_ns,
        };
        let measure = format!("{name}: CPU per delta of 100,000");
        let row = Row::compared(measure, "ns", per_delta, Goal::RatioAtMost(MAX_GROWTH));
        rows.push(row.against("delta of 1,000"));
    }
    for encoder in figures.encoders {
        let kind = &encoder.kind;
        rows.push(not_judged(
            format!("{kind}: encoding of a long request"),
            "MB/s",
            encoder.mb_per_second,
        ));
        rows.push(not_judged(
            format!("{kind}: allocations per message"),
            "",
            encoder.allocations_per_message,
        ));
    }
    rows.push(not_judged(
        "allocations to write an event's frame".to_owned(),
        "",
        figures.allocations_per_frame,
    ));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::report::Verdict;

    #[test]
    fn misses_the_goal_when_a_delta_costs_more_in_a_long_response() {
        let verdict = |long: f64| {
            let json = format!(
                r#"{{"decoders":[{{"name":"w","mb_per_second":1,"allocations_per_delta":2,"short_ns":100,"long_ns":{long}}}],"encoders":[],"allocations_per_frame":0}}"#
            );
            rows(json.as_bytes()).unwrap()[2].verdict()
        };
        assert_eq!(
            (verdict(110.0), verdict(300.0)),
            (Verdict::Met, Verdict::Missed)
        );
    }
}
