//! Approvals: calls that wait for a person, and the decisions about them.

use runloom_protocol::approval::{ApprovalStatus, ApprovalVerdict, DecidedBy, Ruling};
use runloom_protocol::event::{ApprovalDecided, ApprovalRequested, Event};
use runloom_protocol::id::{ApprovalId, RunId};
use runloom_protocol::policy::Approver;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::state::{Call, CallState, RunState};

/// Characters of one value in the line about changed arguments.
const SHOWN_CHARS: usize = 200;
/// Arguments that the line names.
const SHOWN_CHANGES: usize = 16;

/// A call for which a person must be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalAsk {
    /// The event, still without `expiresAt`.
    pub request: ApprovalRequested,
    /// Time limit of the approval, if the policy sets one.
    pub timeout_ms: Option<u64>,
    /// Who may decide.
    pub approver: Approver,
}

/// A decision that was delivered to the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided<'a> {
    /// Which approval.
    pub approval: &'a ApprovalId,
    /// The decision.
    pub ruling: &'a Ruling,
    /// The person or key that decided.
    pub by: &'a DecidedBy,
    /// When, RFC 3339.
    pub at: String,
}

/// The id of the approval of a call, derived from the run and the call: asking again gives the same id.
#[must_use]
pub fn approval_id(run: &RunId, tool_use_id: &str) -> ApprovalId {
    let mut hash = Sha256::new();
    hash.update(run.as_str().as_bytes());
    hash.update([0]);
    hash.update(tool_use_id.as_bytes());
    let digest = hash.finalize();
    let hex: String = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    ApprovalId::from_suffix(hex)
}

/// The event for a decision; `None` when no such call waits.
#[must_use]
pub fn decide(state: &RunState, decided: &Decided<'_>) -> Option<Event> {
    let waits = |call: &&Call| matches!(&call.state, CallState::Pending { approval, .. } if approval == decided.approval);
    let call = state.calls.iter().find(waits)?;
    let ruling = decided.ruling;
    Some(Event::ApprovalDecided(ApprovalDecided {
        approval_id: decided.approval.clone(),
        run_id: state.plan.run.clone(),
        depth: state.plan.place.depth,
        tool_use_id: call.id.clone(),
        name: call.name.clone(),
        decision: ruling.decision,
        status: ruling.decision.into(),
        input: ruling.input.clone(),
        sub_decisions: ruling.sub_decisions.clone(),
        note: ruling.note.clone(),
        by: decided.by.clone(),
        decided_at: decided.at.clone(),
    }))
}

/// The event for a call without a decision before its deadline.
pub(super) fn expired(state: &RunState, call: &Call, now: i64) -> Option<Event> {
    let CallState::Pending {
        approval,
        deadline,
        expires_at,
    } = &call.state
    else {
        return None;
    };
    (*deadline <= now).then(|| {
        Event::ApprovalDecided(ApprovalDecided {
            approval_id: approval.clone(),
            run_id: state.plan.run.clone(),
            depth: state.plan.place.depth,
            tool_use_id: call.id.clone(),
            name: call.name.clone(),
            decision: ApprovalVerdict::Deny,
            status: ApprovalStatus::Expired,
            input: None,
            sub_decisions: Vec::new(),
            note: None,
            by: DecidedBy::timeout(),
            decided_at: expires_at.clone(),
        })
    })
}

impl RunState {
    /// Whether an approval of this run, or of a run below it, is pending.
    #[must_use]
    pub fn awaits_approval(&self) -> bool {
        let pending = |call: &Call| matches!(call.state, CallState::Pending { .. });
        !self.approvals_below.is_empty() || self.calls.iter().any(pending)
    }

    pub(super) fn apply_approval_requested(&mut self, request: ApprovalRequested) {
        if request.run_id != self.plan.run {
            self.approvals_below
                .insert(request.approval_id, request.run_id);
            return;
        }
        let pending = CallState::Pending {
            approval: request.approval_id,
            deadline: i64::MAX,
            expires_at: request.expires_at,
        };
        self.set(&request.tool_use_id, pending);
    }

    pub(super) fn apply_approval_deadline(&mut self, tool_use_id: &str, until: i64) {
        let call = self.calls.iter_mut().find(|call| call.id == tool_use_id);
        if let Some(Call {
            state: CallState::Pending { deadline, .. },
            ..
        }) = call
        {
            *deadline = until;
        }
    }

    pub(super) fn apply_approval_decided(&mut self, decided: ApprovalDecided) {
        if decided.run_id != self.plan.run {
            self.approvals_below.remove(&decided.approval_id);
            return;
        }
        let Some(call) = self
            .calls
            .iter_mut()
            .find(|call| call.id == decided.tool_use_id)
        else {
            return;
        };
        call.state = match decided.decision {
            ApprovalVerdict::Approve => {
                if let Some(input) = decided.input {
                    call.edit = Some(edit_line(&call.input, &input, decided.note.as_deref()));
                    call.input = input;
                }
                CallState::Approved
            }
            ApprovalVerdict::Deny => CallState::Refused {
                text: refusal(decided.status, decided.note.as_deref()),
            },
        };
    }
}

/// The result that the model reads for a call that was not approved.
fn refusal(status: ApprovalStatus, note: Option<&str>) -> String {
    if status == ApprovalStatus::Expired {
        let message = "Nobody decided about this call in time. It was not executed.";
        return json!({"error": "approval_timeout", "message": message}).to_string();
    }
    let message = match note {
        Some(note) => format!("A person denied this call: {note}"),
        None => "A person denied this call.".to_owned(),
    };
    json!({"error": "denied", "message": message}).to_string()
}

/// The first line of the result of a call with changed arguments: the changes and the reason.
fn edit_line(before: &Value, after: &Value, note: Option<&str>) -> String {
    let mut changes = changes(before, after);
    if changes.len() > SHOWN_CHANGES {
        let more = changes.len() - SHOWN_CHANGES;
        changes.truncate(SHOWN_CHANGES);
        changes.push(format!("{more} more"));
    }
    let mut line = format!(
        "A person changed the arguments of this call before it was executed: {}.",
        changes.join("; ")
    );
    if let Some(note) = note {
        let words: Vec<&str> = note.split_whitespace().collect();
        line.push_str(" Note: ");
        line.push_str(&words.join(" "));
    }
    line
}

fn changes(before: &Value, after: &Value) -> Vec<String> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return vec![format!("{} → {}", shown(before), shown(after))];
    };
    let changed = after.iter().filter_map(|(key, new)| match before.get(key) {
        Some(old) if old == new => None,
        Some(old) => Some(format!("{key}: {} → {}", shown(old), shown(new))),
        None => Some(format!("{key} added: {}", shown(new))),
    });
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    changed
        .chain(removed.map(|key| format!("{key} removed")))
        .collect()
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_says_what_was_changed() {
        let before = json!({"path": "a.txt", "mode": 1, "content": "x"});
        let after = json!({"path": "b.txt", "content": "x", "force": true});
        assert_eq!(
            edit_line(&before, &after, Some("Not\n a.txt.")),
            "A person changed the arguments of this call before it was executed: path: \"a.txt\" → \"b.txt\"; \
             force added: true; mode removed. Note: Not a.txt."
        );
        let long = json!({"path": "x".repeat(1000)});
        assert!(edit_line(&before, &long, None).len() < 400);
    }

    #[test]
    fn id_follows_from_run_and_call() {
        let run = RunId::from_suffix("1");
        assert_eq!(approval_id(&run, "tu_1"), approval_id(&run, "tu_1"));
        assert_ne!(approval_id(&run, "tu_1"), approval_id(&run, "tu_2"));
        assert_ne!(
            approval_id(&run, "tu_1"),
            approval_id(&RunId::from_suffix("2"), "tu_1")
        );
    }
}
