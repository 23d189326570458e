//! The nine templates.

use super::*;

fn ui(action: &str, status: Status, input: &Value, data: &Value) -> Option<Value> {
    let (module, method) = action.split_once('.').unwrap();
    compile(&hints(status, Called { module, method }), input, data)
}

fn event() -> Value {
    json!({"id": "evt_1", "title": "Sync", "startAt": "2026-04-21T10:00:00Z", "endAt": "2026-04-21T11:00:00Z",
           "location": null, "inviteStatus": "pending"})
}

#[test]
fn a_list_of_events_is_drawn_as_the_contract_says() {
    let input = json!({"mode": "day", "date": "2026-04-21"});
    let data = json!({"mode": "day", "items": [event()], "count": 1, "truncated": false});
    let range = json!({"type": "time_range", "start": "2026-04-21T10:00:00Z", "end": "2026-04-21T11:00:00Z"});
    let expected = json!({"version": 1, "template": "calendar.read", "component": "card", "tone": "neutral",
        "title": "Calendar", "subtitle": {"type": "date", "value": "2026-04-21"}, "children": [
        {"component": "list", "empty": "No events.", "more": 0, "items": [
            {"id": "evt_1", "title": "Sync", "subtitle": range, "badge": "invited"}]}]});
    assert_eq!(
        ui("calendar.read", Status::Success, &input, &data),
        Some(expected)
    );
    let one = ui(
        "calendar.read",
        Status::Success,
        &json!({"mode": "event"}),
        &data,
    )
    .unwrap();
    assert!(one.get("subtitle").is_none());
    let many = json!({"items": vec![event(); 53]});
    let many = ui("calendar.read", Status::Success, &input, &many).unwrap();
    assert_eq!(many["children"][0]["items"].as_array().unwrap().len(), 50);
    assert_eq!(many["children"][0]["more"], 3);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one row per template")]
fn every_template_has_its_title_and_tone() {
    let saved = json!({"outcome": "created", "key": "k", "event": event(), "title": "Sync", "inviteId": "inv_1"});
    let with = |outcome: &str| {
        let mut data = saved.clone();
        data["outcome"] = json!(outcome);
        data
    };
    for (action, status, data, tone, title) in [
        (
            "calendar.create",
            Status::Success,
            with("created"),
            "success",
            "Event created",
        ),
        (
            "calendar.update",
            Status::Success,
            with("updated"),
            "success",
            "Event updated",
        ),
        (
            "calendar.update",
            Status::Success,
            with("unchanged"),
            "neutral",
            "Event unchanged",
        ),
        (
            "calendar.delete",
            Status::Success,
            with("deleted"),
            "success",
            "Event deleted",
        ),
        (
            "calendar.share",
            Status::Success,
            with("shared"),
            "success",
            "Event shared",
        ),
        (
            "calendar.share",
            Status::Partial,
            with("shared"),
            "warning",
            "Event shared",
        ),
        (
            "calendar.accept_invite",
            Status::Success,
            with("accepted"),
            "success",
            "Invite accepted",
        ),
        (
            "calendar.reject_invite",
            Status::Success,
            with("rejected"),
            "neutral",
            "Invite rejected",
        ),
        (
            "contacts.read",
            Status::Success,
            json!({"items": []}),
            "neutral",
            "Contacts",
        ),
        (
            "memory.update",
            Status::Success,
            with("replaced"),
            "success",
            "Memory saved",
        ),
        (
            "memory.update",
            Status::Success,
            with("forgotten"),
            "neutral",
            "Memory forgotten",
        ),
    ] {
        let card = ui(action, status, &json!({"text": "t"}), &data).unwrap();
        assert_eq!(
            (card["tone"].as_str(), card["title"].as_str()),
            (Some(tone), Some(title)),
            "{action}"
        );
        assert_eq!(card["template"], action);
    }
}

#[test]
fn invites_come_before_failures() {
    let data = json!({"invites": [{"inviteId": "inv_1", "email": "a@b", "status": "pending"}],
        "failed": [{"invitee": "me@b", "code": "CONFLICT", "message": "own"}]});
    let card = ui("calendar.share", Status::Partial, &json!({}), &data).unwrap();
    assert_eq!(
        card["children"][0]["items"],
        json!([
        {"id": "inv_1", "title": "a@b", "subtitle": null, "badge": "pending"},
        {"id": "me@b", "title": "me@b", "subtitle": "own", "badge": "failed"}])
    );
}

#[test]
fn failures_and_other_actions_have_no_card() {
    for (action, status) in [
        ("calendar.read", Status::Failure),
        ("memory.read", Status::Success),
        ("crm.find", Status::Success),
    ] {
        assert_eq!(ui(action, status, &json!({}), &json!({"items": []})), None);
    }
}
