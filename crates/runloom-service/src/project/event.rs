//! Events of the calendar: as they are stored, and as actions return them.

use runloom_ports::store::{InviteRow, Millis, ProjectRecord, RecordKind};
use runloom_project::call::invalid_input;
use runloom_project::input::InputIssue;
use runloom_project::time::datetime;
use runloom_project::{Failure, code};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::action::Acting;

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventBody {
    pub(super) title: String,
    pub(super) start_at: String,
    pub(super) end_at: String,
    pub(super) timezone: Option<String>,
    pub(super) location: Option<String>,
    pub(super) notes: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
}

/// The record of an event; fails when it ends before it begins.
pub(super) fn record_of(
    acting: &Acting<'_>,
    id: &str,
    version: u64,
    body: &EventBody,
) -> Result<ProjectRecord, Failure> {
    let (start, end) = (datetime(&body.start_at), datetime(&body.end_at));
    let (Some(start), Some(end)) = (start, end) else {
        return Err(Failure::new(
            code::INTERNAL,
            "The times of the event are damaged.",
        ));
    };
    if end <= start {
        let schema = json!({"start_at": "datetime optional", "end_at": "datetime optional"});
        let issue = InputIssue {
            path: "end_at".to_owned(),
            message: "must be after the start of the event".to_owned(),
        };
        return Err(invalid_input(schema, &[issue]));
    }
    let text = serde_json::to_string(body);
    let text = text.map_err(|_| Failure::new(code::INTERNAL, "The event cannot be stored."))?;
    Ok(ProjectRecord {
        kind: RecordKind::Event,
        owner: acting.owner.id.clone(),
        id: id.to_owned(),
        span: Some((Millis(start), Millis(end))),
        words: body.title.to_lowercase(),
        body: text,
        version,
    })
}

/// The event of a record.
pub(super) fn body_of(record: &ProjectRecord) -> Result<EventBody, Failure> {
    serde_json::from_str(&record.body)
        .map_err(|_| Failure::new(code::INTERNAL, "The stored event is damaged."))
}

/// The event as an action returns it.
pub(super) fn shown_event(
    body: &EventBody,
    id: &str,
    invite: Option<&InviteRow>,
    invites: &[InviteRow],
) -> Value {
    let attendees: Vec<Value> = invites
        .iter()
        .map(|invite| json!({"email": invite.email, "status": invite.status.as_str()}))
        .collect();
    json!({
        "id": id,
        "title": body.title,
        "startAt": body.start_at,
        "endAt": body.end_at,
        "timezone": body.timezone,
        "location": body.location,
        "notes": body.notes,
        "role": if invite.is_some() { "invitee" } else { "owner" },
        "inviteId": invite.map(|invite| &invite.id),
        "inviteStatus": invite.map(|invite| invite.status.as_str()),
        "attendees": attendees,
        "createdAt": body.created_at,
        "updatedAt": body.updated_at,
    })
}
