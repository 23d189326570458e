//! What was done and seen, for people.

use std::collections::BTreeMap;

use crate::load::Load;
use crate::stage::Stage;

/// Counts of one round.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// How often each fault happened.
    pub(crate) faults: BTreeMap<&'static str, usize>,
    pub(crate) runs: usize,
    pub(crate) events: usize,
    pub(crate) restarts: usize,
    pub(crate) ends: BTreeMap<String, usize>,
    pub(crate) tool_calls: usize,
    pub(crate) tool_repeats: usize,
    /// Seconds, in order.
    pub(crate) take_overs: Vec<f64>,
}

impl Report {
    pub(crate) fn print(&self, stage: &Stage, load: &Load) {
        use std::sync::atomic::Ordering::Relaxed;
        println!("\n{}, seed {}:", self.name, self.seed);
        println!("  faults      {}", counted(&self.faults));
        println!(
            "  runs        {} accepted, {} events, ends: {}, {} turns called again",
            self.runs,
            self.events,
            counted(&self.ends),
            self.restarts
        );
        println!(
            "  clients     {} streams opened, {} requests repeated",
            load.clients.streams.load(Relaxed),
            load.clients.repeats.load(Relaxed)
        );
        println!(
            "  tool server {} calls, {} of them repeated because their effect allows it",
            self.tool_calls, self.tool_repeats
        );
        match (self.take_overs.first(), self.take_overs.last()) {
            (Some(shortest), Some(longest)) => println!(
                "  take-over   {} runs of dead workers, after {shortest:.1} to {longest:.1} s (median {:.1} s)",
                self.take_overs.len(),
                self.take_overs[self.take_overs.len() / 2]
            ),
            _ => println!("  take-over   no dead worker held a run"),
        }
        println!("  took        {:.1} s\n", stage.elapsed().as_secs_f64());
    }
}

fn counted<K: std::fmt::Display>(counts: &BTreeMap<K, usize>) -> String {
    let counts: Vec<String> = counts
        .iter()
        .map(|(what, times)| format!("{what} {times}"))
        .collect();
    counts.join(", ")
}
