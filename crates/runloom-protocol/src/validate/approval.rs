//! A person's decision about a tool call.

use crate::approval::{ApprovalVerdict, DecideApproval, Ruling, SubDecision};
use crate::id::ApprovalId;
use crate::limits;
use crate::read::{Excerpt, Fields, Node};
use serde_json::Value;

pub(super) fn read(fields: &Fields<'_, '_>) -> Option<DecideApproval> {
    let approval_id = fields.require("approvalId").and_then(|node| id(&node));
    let decision = fields.require("decision").and_then(|node| node.keyword());
    let ruling = Ruling {
        decision: decision.unwrap_or(ApprovalVerdict::Deny),
        input: input(fields, Expected::Object, decision),
        sub_decisions: fields
            .list("subDecisions", limits::SUB_ACTIONS_MAX, sub_decision)
            .unwrap_or_default(),
        note: note(fields),
    };
    if ruling.input.is_some() && fields.has("subDecisions") {
        let message =
            "give either `input` or `subDecisions`: each sub-decision has its own `input`";
        fields.refuse("input", message);
    }
    refuse_twice(fields, &ruling.sub_decisions);
    // A misspelt field would change what is executed.
    fields.refuse_unread();
    Some(DecideApproval {
        approval_id: approval_id?,
        ruling,
    })
}

fn id(node: &Node<'_, '_>) -> Option<ApprovalId> {
    let text = node.string()?;
    let id = ApprovalId::parse(text);
    if id.is_none() {
        let wanted = "expected the id of an approval, `apr_…`";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(text)));
    }
    id
}

/// What the arguments of a decision must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Object,
    AnyValue,
}

/// The arguments to execute instead of those that were asked for.
pub(super) fn changed_arguments(
    fields: &Fields<'_, '_>,
    decision: ApprovalVerdict,
) -> Option<Value> {
    input(fields, Expected::Object, Some(decision))
}

fn input(
    fields: &Fields<'_, '_>,
    expected: Expected,
    decision: Option<ApprovalVerdict>,
) -> Option<Value> {
    let node = fields.get("input")?;
    if expected == Expected::Object {
        node.expect("an object", node.value().as_object())?;
    }
    node.has_bytes_within(limits::APPROVAL_INPUT_MAX_BYTES);
    if !super::fits_in_depth(node.value()) {
        let max = limits::JSON_DEPTH_MAX;
        node.refuse(format_args!("must have at most {max} levels"));
    }
    if decision == Some(ApprovalVerdict::Deny) {
        node.refuse("belongs to the decision `approve`");
    }
    Some(node.value().clone())
}

fn note(fields: &Fields<'_, '_>) -> Option<String> {
    let note = fields.text("note", limits::APPROVAL_NOTE_MAX_CHARS)?;
    Some(note.to_owned()).filter(|note| !note.is_empty())
}

fn sub_decision(node: Node<'_, '_>) -> Option<SubDecision> {
    let fields = node.fields()?;
    let id = fields.required_text("id", limits::TOOL_USE_ID_MAX_CHARS);
    let decision = fields.require("decision").and_then(|node| node.keyword());
    let (input, note) = (input(&fields, Expected::AnyValue, decision), note(&fields));
    fields.refuse_unread();
    Some(SubDecision {
        id: id?.to_owned(),
        decision: decision?,
        input,
        note,
    })
}

fn refuse_twice(fields: &Fields<'_, '_>, decisions: &[SubDecision]) {
    let twice = decisions
        .iter()
        .enumerate()
        .find(|(index, one)| decisions[..*index].iter().any(|other| other.id == one.id));
    if let Some((_, one)) = twice {
        fields.refuse(
            "subDecisions",
            format_args!("the sub-action `{}` is decided twice", Excerpt(&one.id)),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::approval::ApprovalVerdict;
    use crate::validate::decide_approval;

    #[test]
    fn reads_a_decision() {
        let body = json!({
            "approvalId": "apr_1", "decision": "approve", "input": {"path": "b.txt"}, "note": "Not a.txt."
        });
        let request = decide_approval(&body).unwrap();
        assert_eq!(request.approval_id.as_str(), "apr_1");
        assert_eq!(request.ruling.decision, ApprovalVerdict::Approve);
        assert_eq!(request.ruling.input, Some(json!({"path": "b.txt"})));
        assert_eq!(request.ruling.note.as_deref(), Some("Not a.txt."));
    }

    #[test]
    fn rejects_errors_with_their_path() {
        let deep = (0..101).fold(json!(1), |inner, _| json!([inner]));
        for (body, path) in [
            (json!({"decision": "deny"}), "approvalId"),
            (
                json!({"approvalId": "run_1", "decision": "deny"}),
                "approvalId",
            ),
            (json!({"approvalId": "apr_1"}), "decision"),
            (
                json!({"approvalId": "apr_1", "decision": "maybe"}),
                "decision",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "deny", "input": {}}),
                "input",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "approve", "input": []}),
                "input",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "approve", "input": {"x": deep}}),
                "input",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "approve", "input": {"x": "x".repeat(256 * 1024)}}),
                "input",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "deny", "note": "x".repeat(2001)}),
                "note",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "approve", "inputs": {}}),
                "inputs",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "approve", "subDecisions": [{"id": "0"}]}),
                "subDecisions[0].decision",
            ),
            (
                json!({"approvalId": "apr_1", "decision": "approve", "subDecisions": [
                    {"id": "0", "decision": "deny"}, {"id": "0", "decision": "approve"}]}),
                "subDecisions",
            ),
        ] {
            let issues = decide_approval(&body).unwrap_err();
            assert_eq!(issues[0].path, path, "{body}: {issues:?}");
        }
    }
}
