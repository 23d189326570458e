//! `ui_schema`: one codec, nine templates. Values are data, never markup or URLs.

use serde_json::{Value, json};

use crate::called::{Called, Status};

/// Items that a list shows.
const ITEMS_MAX: usize = 50;
/// Characters of a memory that its card shows.
const TEXT_CHARS: usize = 200;

/// The actions that have a template.
const TEMPLATES: [&str; 9] = [
    "calendar.read",
    "calendar.create",
    "calendar.update",
    "calendar.delete",
    "calendar.share",
    "calendar.accept_invite",
    "calendar.reject_invite",
    "contacts.read",
    "memory.update",
];

/// What the codec compiles: the template and whether all was done. `{}` where there is no template.
pub(crate) fn hints(status: Status, called: Called<'_>) -> Value {
    let template = format!("{}.{}", called.module, called.method);
    if status == Status::Failure || !TEMPLATES.contains(&template.as_str()) {
        return json!({});
    }
    json!({"version": 1, "template": template, "status": status.as_str()})
}

/// The `ui_schema` of a result; `None` where the hints name no template or the data is not of it.
#[must_use]
#[expect(clippy::too_many_lines, reason = "one arm per template")]
pub fn compile(hints: &Value, input: &Value, data: &Value) -> Option<Value> {
    let template = hints.get("template")?.as_str()?;
    let outcome = data["outcome"].as_str().unwrap_or_default();
    let (tone, title, subtitle, child) = match template {
        "calendar.read" => {
            let items = items(&data["items"], |event| {
                item(&event["id"], &event["title"], when(event), badge_of(event))
            });
            (
                "neutral",
                "Calendar",
                calendar_subtitle(input),
                list("No events.", items),
            )
        }
        "calendar.create" => (
            "success",
            "Event created",
            None,
            event_fields(&data["event"]),
        ),
        "calendar.update" if outcome == "unchanged" => (
            "neutral",
            "Event unchanged",
            None,
            event_fields(&data["event"]),
        ),
        "calendar.update" => (
            "success",
            "Event updated",
            None,
            event_fields(&data["event"]),
        ),
        "calendar.delete" => {
            let title = field("Title", &data["title"]);
            ("success", "Event deleted", None, fields(vec![title]))
        }
        "calendar.share" => {
            let partial = hints["status"] == "partial";
            let tone = if partial { "warning" } else { "success" };
            (
                tone,
                "Event shared",
                None,
                list("No invites.", shared_items(data)),
            )
        }
        "calendar.accept_invite" => (
            "success",
            "Invite accepted",
            None,
            event_fields(&data["event"]),
        ),
        "calendar.reject_invite" => {
            let invite = field("Invite", &data["inviteId"]);
            ("neutral", "Invite rejected", None, fields(vec![invite]))
        }
        "contacts.read" => {
            let items = items(&data["items"], |contact| {
                item(
                    &contact["id"],
                    &contact["name"],
                    contact["email"].clone(),
                    Value::Null,
                )
            });
            let query = input
                .get("query")
                .filter(|query| query.is_string())
                .cloned();
            ("neutral", "Contacts", query, list("No contacts.", items))
        }
        "memory.update" if outcome == "forgotten" => (
            "neutral",
            "Memory forgotten",
            None,
            fields(vec![field("Key", &data["key"])]),
        ),
        "memory.update" => {
            let text = input["text"].as_str().unwrap_or_default();
            let text: String = text.chars().take(TEXT_CHARS).collect();
            let saved = vec![field("Key", &data["key"]), field("Text", &json!(text))];
            ("success", "Memory saved", None, fields(saved))
        }
        _ => return None,
    };
    let mut card = json!({"version": 1, "template": template, "component": "card", "tone": tone, "title": title});
    if let Some(subtitle) = subtitle {
        card["subtitle"] = subtitle;
    }
    card["children"] = json!([child]);
    Some(card)
}

fn calendar_subtitle(input: &Value) -> Option<Value> {
    match input["mode"].as_str()? {
        "day" => Some(json!({"type": "date", "value": input["date"]})),
        "range" => Some(time_range(&input["start_at"], &input["end_at"])),
        _ => None,
    }
}

/// Invites that were made, then invitees that failed.
fn shared_items(data: &Value) -> Vec<Value> {
    let mut all = items(&data["invites"], |invite| {
        item(
            &invite["inviteId"],
            &invite["email"],
            Value::Null,
            invite["status"].clone(),
        )
    });
    all.extend(items(&data["failed"], |failed| {
        let invitee = &failed["invitee"];
        item(invitee, invitee, failed["message"].clone(), json!("failed"))
    }));
    all
}

fn badge_of(event: &Value) -> Value {
    match event["inviteStatus"] == "pending" {
        true => json!("invited"),
        false => Value::Null,
    }
}

fn event_fields(event: &Value) -> Value {
    let mut items = vec![field("Title", &event["title"]), field("When", &when(event))];
    if event["location"].is_string() {
        items.push(field("Where", &event["location"]));
    }
    fields(items)
}

fn when(event: &Value) -> Value {
    time_range(&event["startAt"], &event["endAt"])
}

fn time_range(start: &Value, end: &Value) -> Value {
    json!({"type": "time_range", "start": start, "end": end})
}

fn field(label: &str, value: &Value) -> Value {
    json!({"label": label, "value": value})
}

fn fields(items: Vec<Value>) -> Value {
    json!({"component": "fields", "items": items})
}

fn item(id: &Value, title: &Value, subtitle: Value, badge: Value) -> Value {
    json!({"id": id, "title": title, "subtitle": subtitle, "badge": badge})
}

fn items(values: &Value, draw: impl Fn(&Value) -> Value) -> Vec<Value> {
    values.as_array().into_iter().flatten().map(draw).collect()
}

fn list(empty: &str, mut items: Vec<Value>) -> Value {
    let more = items.len().saturating_sub(ITEMS_MAX);
    items.truncate(ITEMS_MAX);
    json!({"component": "list", "empty": empty, "items": items, "more": more})
}

#[cfg(test)]
#[path = "ui_tests.rs"]
mod tests;
