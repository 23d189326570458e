//! Guards: the model must not go in circles, nor call a tool more often than allowed.

use std::collections::BTreeMap;

use runloom_protocol::spec::LoopDetection;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The result of a repeated call.
pub(super) const REPEATED: &str = "This exact call was already made with the same arguments, and its result has not changed. It was not \
     executed again. Use the earlier result, try something else, or give your final answer.";

/// Message to the model before the turn after a detected loop.
pub(super) const NUDGE: &str = "You are repeating the same tool calls. Deliver your final answer now with what you have, or change your \
     strategy: do not make the same calls again.";

/// Message to the model before a turn without tools.
pub(super) const FINALISE: &str =
    "No more tool calls are possible in this run. Give your final answer now with what you have.";

/// Message to the model before the last affordable turn.
pub(super) const ECONOMISE: &str = "The budget of this run is nearly used up, and no more tool calls are possible. Give your final answer now with what you \
     have, as briefly as you can.";

/// Message to the model when the answer must come through the hidden output tool.
pub(super) const REPORT: &str = "Deliver your final answer now in the required structure.";

/// Message to the model after a call that the provider could not parse.
pub(super) const MALFORMED: &str = "Your last function call was malformed and could not be parsed. Make the call again with valid JSON arguments, or answer \
     in text.";

/// State of loop detection.
#[derive(Debug, Clone, Default)]
pub(super) struct Guards {
    signature: Option<[u8; 32]>,
    /// Number of equal tool turns in a row, including the current one.
    pub(super) streak: u32,
    /// `loop_detected{hardCutoff:false}` was emitted for this streak.
    pub(super) soft_told: bool,
    /// `loop_detected{hardCutoff:true}` was emitted.
    pub(super) hard_told: bool,
    /// Calls so far, by tool; those that a loop skipped are not counted.
    pub(super) calls: BTreeMap<String, u32>,
}

/// Result of loop detection for the current tool turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Go on.
    Fine,
    /// Do not execute; nudge.
    Repeating,
    /// Do not execute; finish without tools.
    Stuck,
}

impl Guards {
    /// Takes note of a turn that called tools.
    pub(super) fn turn(&mut self, signature: [u8; 32]) {
        if self.signature == Some(signature) {
            self.streak += 1;
        } else {
            self.signature = Some(signature);
            self.streak = 1;
            self.soft_told = false;
        }
    }

    /// Records a turn without tool calls.
    pub(super) fn quiet_turn(&mut self) {
        self.signature = None;
        self.streak = 0;
        self.soft_told = false;
    }

    pub(super) fn verdict(&self, detection: LoopDetection) -> Verdict {
        match detection {
            LoopDetection::On { hard, .. } if self.streak >= hard => Verdict::Stuck,
            LoopDetection::On { consecutive, .. } if self.streak >= consecutive => {
                Verdict::Repeating
            }
            _ => Verdict::Fine,
        }
    }
}

/// The signature of a turn's calls: a multiset of names and arguments, so that neither the order of the calls nor the
/// order of object keys matters.
pub fn signature_of<'a>(calls: impl Iterator<Item = (&'a str, &'a Value)>) -> [u8; 32] {
    let mut parts: Vec<String> = calls
        .map(|(name, input)| {
            let mut text = format!("{}:{name}=", name.len());
            write_canonical(input, &mut text);
            text
        })
        .collect();
    parts.sort_unstable();
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in entries {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Whether the turn ended before the model had finished its text.
pub(super) fn was_cut(finish: &str) -> bool {
    use runloom_protocol::outcome::finish_reason::{
        CONTENT_FILTER, MALFORMED_FUNCTION_CALL, MAX_TOKENS, REFUSAL,
    };
    matches!(
        finish,
        MAX_TOKENS | CONTENT_FILTER | REFUSAL | MALFORMED_FUNCTION_CALL
    )
}
