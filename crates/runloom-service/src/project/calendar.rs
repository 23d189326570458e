//! `calendar`: events of an owner, and invites to them.

use std::collections::{BTreeMap, BTreeSet};

use runloom_ports::clock::rfc3339;
use runloom_ports::store::{
    InviteRow, InviteStatus, Millis, ProjectRecord, ProjectWrite, RecordKind, RecordQuery,
};
use runloom_project::time::{datetime, day};
use runloom_project::{Failure, code};
use serde_json::{Value, json};

use super::ProjectService;
use super::action::{Acting, Plan, internal, not_found};
use super::event::{EventBody, body_of, record_of, shown_event};

/// Events of one owner.
const EVENTS_MAX: usize = 10_000;
/// Events of one answer.
const READ_MAX: usize = 200;
/// Invites of one event.
const INVITES_MAX: usize = 50;
/// Invites to one address that are looked at.
const INVITED_MAX: usize = 10_000;

/// An event as an owner sees it.
struct SeenEvent {
    record: ProjectRecord,
    body: EventBody,
    /// The invite by which an invitee sees it; `None` for its owner.
    invite: Option<InviteRow>,
}

impl ProjectService {
    pub(super) async fn read_calendar(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let text = |key: &str| input[key].as_str().unwrap_or_default();
        let mode = text("mode");
        if mode == "event" {
            let event = self.seen_event(acting, text("event_id")).await?;
            let items = self.shown(acting, vec![event]).await?;
            return Ok(Plan::answer(
                json!({"mode": mode, "items": items, "count": 1, "truncated": false}),
            ));
        }
        let span = if mode == "day" {
            let zone = input["timezone"].as_str().unwrap_or("UTC");
            let day = day(text("date"), zone).ok_or_else(|| not_found("day"))?;
            (Millis(day.start), Millis(day.end))
        } else {
            let time = |key: &str| Millis(datetime(text(key)).unwrap_or_default());
            (time("start_at"), time("end_at"))
        };
        let mut events = self.events_within(acting, span).await?;
        let truncated = events.len() > READ_MAX;
        events.truncate(READ_MAX);
        let items = self.shown(acting, events).await?;
        let count = items.len();
        Ok(Plan::answer(
            json!({"mode": mode, "items": items, "count": count, "truncated": truncated}),
        ))
    }

    pub(super) fn create_event(&self, acting: &Acting<'_>, input: &Value) -> Result<Plan, Failure> {
        let now = rfc3339(acting.now);
        let text = |key: &str| input[key].as_str().map(str::to_owned);
        let body = EventBody {
            title: text("title").unwrap_or_default(),
            start_at: text("start_at").unwrap_or_default(),
            end_at: text("end_at").unwrap_or_default(),
            timezone: text("timezone"),
            location: text("location"),
            notes: text("notes"),
            created_at: now.clone(),
            updated_at: now,
        };
        let id = format!("evt_{}", self.clock.new_id());
        let record = record_of(acting, &id, 1, &body)?;
        let event = shown_event(&body, &id, None, &[]);
        let data = json!({"outcome": "created", "id": id, "event": event});
        let write = ProjectWrite::Insert {
            record,
            max: EVENTS_MAX,
        };
        Ok(Plan::writing(vec![write], data))
    }

    pub(super) async fn update_event(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let SeenEvent { record, body, .. } = self.own_event(acting, input).await?;
        let mut new = body.clone();
        if let Some(title) = input["title"].as_str() {
            new.title = title.to_owned();
        }
        if let Some(start) = input["start_at"].as_str() {
            new.start_at = start.to_owned();
        }
        if let Some(end) = input["end_at"].as_str() {
            new.end_at = end.to_owned();
        }
        if let Some(zone) = input["timezone"].as_str() {
            new.timezone = Some(zone.to_owned());
        }
        for (key, field) in [("location", &mut new.location), ("notes", &mut new.notes)] {
            if let Some(given) = input.get(key) {
                *field = given.as_str().map(str::to_owned);
            }
        }
        let pairs = [
            ("title", body.title != new.title),
            ("startAt", body.start_at != new.start_at),
            ("endAt", body.end_at != new.end_at),
            ("timezone", body.timezone != new.timezone),
            ("location", body.location != new.location),
            ("notes", body.notes != new.notes),
        ];
        let changed: Vec<&str> = pairs
            .iter()
            .filter(|(_, is)| *is)
            .map(|(name, _)| *name)
            .collect();
        let invites = self
            .invites(acting, std::slice::from_ref(&record.id))
            .await?;
        let id = record.id.clone();
        if changed.is_empty() {
            let event = shown_event(&body, &id, None, &invites);
            let data = json!({"outcome": "unchanged", "id": id, "changed": [], "event": event});
            return Ok(Plan::answer(data));
        }
        new.updated_at = rfc3339(acting.now);
        let event = shown_event(&new, &id, None, &invites);
        let data = json!({"outcome": "updated", "id": id, "changed": changed, "event": event});
        let changed = record_of(acting, &id, record.version, &new)?;
        Ok(Plan::writing(vec![ProjectWrite::Update(changed)], data))
    }

    pub(super) async fn delete_event(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let SeenEvent { record, body, .. } = self.own_event(acting, input).await?;
        let invites = self
            .invites(acting, std::slice::from_ref(&record.id))
            .await?;
        let withdrawn = invites
            .iter()
            .filter(|invite| invite.status != InviteStatus::Rejected);
        let data = json!({"outcome": "deleted", "id": record.id, "title": body.title,
            "withdrawnInvites": withdrawn.count()});
        let write = ProjectWrite::Delete {
            kind: RecordKind::Event,
            owner: record.owner,
            id: record.id,
        };
        Ok(Plan::writing(vec![write], data))
    }

    pub(super) async fn share_event(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let SeenEvent { record, .. } = self.own_event(acting, input).await?;
        let mut invites: BTreeMap<String, InviteRow> = self
            .invites(acting, std::slice::from_ref(&record.id))
            .await?
            .into_iter()
            .map(|invite| (invite.email.clone(), invite))
            .collect();
        let message = input["message"].as_str().map(str::to_owned);
        let (mut writes, mut shared, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for invitee in input["invitees"].as_array().into_iter().flatten() {
            let (name, email) = match self.email_of(acting, invitee).await {
                Ok(email) => (email.clone(), Ok(email)),
                Err(failure) => {
                    let name = invitee["contact_id"].as_str().unwrap_or_default();
                    (name.to_owned(), Err(failure))
                }
            };
            let email = email.and_then(|email| {
                let own = acting.owner.email.as_deref() == Some(email.as_str());
                if own {
                    let message = "The owner of the event cannot be invited to it.";
                    return Err(Failure::new(code::CONFLICT, message));
                }
                if !invites.contains_key(&email) && invites.len() >= INVITES_MAX {
                    let message = "An event has at most 50 invites.";
                    return Err(Failure::new(code::LIMIT_EXCEEDED, message));
                }
                Ok(email)
            });
            match email {
                Err(failure) => failed.push(
                    json!({"invitee": name, "code": failure.code, "message": failure.message}),
                ),
                Ok(email) if !seen.insert(email.clone()) => {}
                Ok(email) => {
                    let invite = invites.entry(email.clone()).or_insert_with(|| {
                        let invite = InviteRow {
                            id: format!("inv_{}", self.clock.new_id()),
                            event: record.id.clone(),
                            email,
                            status: InviteStatus::Pending,
                            message: message.clone(),
                        };
                        writes.push(ProjectWrite::Invite(invite.clone()));
                        invite
                    });
                    shared.push(json!({"inviteId": invite.id, "email": invite.email,
                        "status": invite.status.as_str()}));
                }
            }
        }
        if shared.is_empty()
            && let Some(first) = failed.first()
        {
            let text = |key: &str| first[key].as_str().unwrap_or_default();
            return Err(Failure::new(text("code"), text("message")));
        }
        // Somebody may have shared or deleted the event meanwhile: its version says so.
        let unchanged = ProjectRecord { ..record.clone() };
        writes.insert(0, ProjectWrite::Update(unchanged));
        let partial = (!failed.is_empty()).then(|| {
            Failure::new(
                code::PARTIAL,
                "Some invitees could not be invited; `failed` says why.",
            )
        });
        let data = json!({"outcome": "shared", "id": record.id, "count": shared.len(), "invites": shared,
            "failed": failed});
        Ok(Plan {
            writes,
            data,
            partial,
        })
    }

    pub(super) async fn answer_invite(
        &self,
        acting: &Acting<'_>,
        input: &Value,
        accepts: bool,
    ) -> Result<Plan, Failure> {
        let missing = || not_found("invite");
        let id = input["invite_id"].as_str().unwrap_or_default();
        let invite = self.store.invite(acting.workspace, id).await;
        let invite = invite
            .map_err(|error| internal(&error))?
            .ok_or_else(missing)?;
        let is_own = acting.owner.email.as_ref() == Some(&invite.email);
        let record = self.event_record(acting, &invite.event).await?;
        let record = record.filter(|_| is_own).ok_or_else(missing)?;
        let answer = match accepts {
            true => InviteStatus::Accepted,
            false => InviteStatus::Rejected,
        };
        if invite.status != InviteStatus::Pending && invite.status != answer {
            let message = format!("The invite was {} before.", invite.status.as_str());
            return Err(Failure::new(code::CONFLICT, message));
        }
        let mut data = json!({"outcome": answer.as_str(), "id": record.id, "inviteId": invite.id});
        let answered = InviteRow {
            status: answer,
            ..invite.clone()
        };
        if accepts {
            let body = body_of(&record)?;
            let mut invites = self
                .invites(acting, std::slice::from_ref(&record.id))
                .await?;
            for other in invites.iter_mut().filter(|other| other.id == invite.id) {
                other.status = answer;
            }
            data["event"] = shown_event(&body, &record.id, Some(&answered), &invites);
        }
        if invite.status == answer {
            return Ok(Plan::answer(data));
        }
        let write = ProjectWrite::Answer {
            id: invite.id,
            from: InviteStatus::Pending,
            to: answer,
        };
        Ok(Plan::writing(vec![write], data))
    }

    /// The events of an owner within a span, and those that they are invited to, in their order; one more than is
    /// shown.
    async fn events_within(
        &self,
        acting: &Acting<'_>,
        span: (Millis, Millis),
    ) -> Result<Vec<SeenEvent>, Failure> {
        let own = RecordQuery {
            overlaps: Some(span),
            ..RecordQuery::of(RecordKind::Event, &acting.owner.id, READ_MAX + 1)
        };
        let own = self.store.project_records(acting.workspace, own).await;
        let mut events = Vec::new();
        for record in own.map_err(|error| internal(&error))? {
            events.push(SeenEvent {
                body: body_of(&record)?,
                record,
                invite: None,
            });
        }
        if let Some(email) = &acting.owner.email {
            let invites = self
                .store
                .invites_to(acting.workspace, email, INVITED_MAX)
                .await;
            let invites = invites.map_err(|error| internal(&error))?;
            let mut by_event: BTreeMap<String, InviteRow> = invites
                .into_iter()
                .map(|invite| (invite.event.clone(), invite))
                .collect();
            let invited = RecordQuery {
                owner: None,
                ids: Some(by_event.keys().cloned().collect()),
                overlaps: Some(span),
                ..RecordQuery::of(RecordKind::Event, "", READ_MAX + 1)
            };
            let records = self.store.project_records(acting.workspace, invited).await;
            for record in records.map_err(|error| internal(&error))? {
                events.push(SeenEvent {
                    body: body_of(&record)?,
                    invite: by_event.remove(&record.id),
                    record,
                });
            }
        }
        events.sort_by(|one, two| {
            let key = |event: &SeenEvent| (event.record.span, event.record.id.clone());
            let (one, two) = (key(one), key(two));
            (one.0.map(|span| span.0), one.1).cmp(&(two.0.map(|span| span.0), two.1))
        });
        Ok(events)
    }

    /// An event that the owner has or is invited to.
    async fn seen_event(&self, acting: &Acting<'_>, id: &str) -> Result<SeenEvent, Failure> {
        let missing = || not_found("event");
        let record = self.event_record(acting, id).await?.ok_or_else(missing)?;
        let body = body_of(&record)?;
        if record.owner == acting.owner.id {
            return Ok(SeenEvent {
                record,
                body,
                invite: None,
            });
        }
        let invites = self.invites(acting, &[id.to_owned()]).await?;
        let own = invites.into_iter().find(|invite| {
            acting.owner.email.as_ref() == Some(&invite.email)
                && invite.status != InviteStatus::Rejected
        });
        Ok(SeenEvent {
            record,
            body,
            invite: Some(own.ok_or_else(missing)?),
        })
    }

    /// An event that the owner may change.
    async fn own_event(&self, acting: &Acting<'_>, input: &Value) -> Result<SeenEvent, Failure> {
        let id = input["event_id"].as_str().unwrap_or_default();
        let event = self.seen_event(acting, id).await?;
        if event.invite.is_some() {
            let message = "Only the owner of the event may do this.";
            return Err(Failure::new(code::FORBIDDEN, message));
        }
        Ok(event)
    }

    async fn event_record(
        &self,
        acting: &Acting<'_>,
        id: &str,
    ) -> Result<Option<ProjectRecord>, Failure> {
        let query = RecordQuery {
            owner: None,
            ids: Some(vec![id.to_owned()]),
            ..RecordQuery::of(RecordKind::Event, "", 1)
        };
        let found = self.store.project_records(acting.workspace, query).await;
        Ok(found.map_err(|error| internal(&error))?.pop())
    }

    async fn invites(
        &self,
        acting: &Acting<'_>,
        events: &[String],
    ) -> Result<Vec<InviteRow>, Failure> {
        let invites = self.store.invites_of_events(acting.workspace, events).await;
        invites.map_err(|error| internal(&error))
    }

    async fn shown(
        &self,
        acting: &Acting<'_>,
        events: Vec<SeenEvent>,
    ) -> Result<Vec<Value>, Failure> {
        let ids: Vec<String> = events.iter().map(|event| event.record.id.clone()).collect();
        let invites = self.invites(acting, &ids).await?;
        let shown = events.iter().map(|event| {
            let of_event = invites
                .iter()
                .filter(|invite| invite.event == event.record.id);
            let of_event: Vec<InviteRow> = of_event.cloned().collect();
            shown_event(
                &event.body,
                &event.record.id,
                event.invite.as_ref(),
                &of_event,
            )
        });
        Ok(shown.collect())
    }
}
