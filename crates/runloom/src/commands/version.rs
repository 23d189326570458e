//! `runloom version`.

use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) fn run(json: bool) -> Result<Exit, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        output::json(&serde_json::json!({ "version": version }))?;
    } else {
        output::line(format!("runloom {version}"))?;
    }
    Ok(Exit::Ok)
}
