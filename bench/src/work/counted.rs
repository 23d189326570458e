//! The rows of the counting program: allocations, and whether a delta costs more when much was streamed before it.

use std::process::Command;

use anyhow::Context;

#[path = "../counted/figures.rs"]
mod figures;

use figures::Figures;

use crate::report::{Goal, Row};

/// Name of the program; it is built beside this one.
const PROGRAM: &str = "runloom-bench-counted";

/// How much more a delta of a long answer may cost than one of a short answer.
const GROWTH: f64 = 1.2;

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
    let told = |what: String, unit, figure| Row::alone("decode", what, unit, figure, Goal::Told);
    let mut rows = Vec::new();
    for decoder in figures.decoders {
        let wire = &decoder.wire;
        rows.push(told(
            format!("{wire}: decoding without HTTP"),
            "MB/s",
            decoder.speed,
        ));
        rows.push(told(
            format!("{wire}: allocations of a delta"),
            "",
            decoder.allocations,
        ));
        rows.push(Row::beside(
            "decode",
            format!("{wire}: a delta of 100,000 by one of 1,000"),
            "ns",
            (decoder.long, decoder.short),
            Goal::RatioAtMost(GROWTH),
        ));
    }
    for encoder in figures.encoders {
        let kind = &encoder.kind;
        rows.push(told(
            format!("{kind}: a long request encoded"),
            "MB/s",
            encoder.speed,
        ));
        rows.push(told(
            format!("{kind}: allocations of a message"),
            "",
            encoder.allocations,
        ));
    }
    rows.push(told(
        "an event written as its frame: allocations".to_owned(),
        "",
        figures.frame_allocations,
    ));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::report::Verdict;

    #[test]
    fn work_that_grows_with_what_was_streamed_is_a_miss() {
        let of = |long: f64| {
            let json = format!(
                r#"{{"decoders":[{{"wire":"w","speed":1,"allocations":2,"short":100,"long":{long}}}],"encoders":[],"frame_allocations":0}}"#
            );
            rows(json.as_bytes()).unwrap()[2].verdict()
        };
        assert_eq!((of(110.0), of(300.0)), (Verdict::Pass, Verdict::Miss));
    }
}
