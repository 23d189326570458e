//! `contacts`: contacts of an owner, and the people of the workspace.

use runloom_ports::store::{ProjectRecord, RecordKind, RecordQuery, UserRow};
use runloom_project::{Failure, code};
use serde_json::{Value, json};

use super::ProjectService;
use super::action::{Acting, Plan, internal, not_found};

/// Contacts of one answer when the input does not say.
const READ_DEFAULT: u64 = 20;

impl ProjectService {
    pub(super) async fn read_contacts(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let limit = input["limit"].as_u64().unwrap_or(READ_DEFAULT);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let query = input["query"].as_str().map(str::to_lowercase);
        let own = RecordQuery {
            contains: query.clone(),
            ..RecordQuery::of(
                RecordKind::Contact,
                &acting.owner.id,
                limit.saturating_add(1),
            )
        };
        let own = self.store.project_records(acting.workspace, own).await;
        let own = own.map_err(|error| internal(&error))?;
        let mut items: Vec<Value> = own.iter().map(shown_contact).collect();
        if items.len() <= limit {
            let fits = |person: &UserRow| {
                let text = format!("{}\n{}", person.name, person.email).to_lowercase();
                query.as_ref().is_none_or(|query| text.contains(query))
            };
            let people = self.members(acting).await?;
            items.extend(people.iter().filter(|person| fits(person)).map(shown_user));
        }
        let truncated = items.len() > limit;
        items.truncate(limit);
        Ok(Plan::answer(
            json!({"count": items.len(), "truncated": truncated, "items": items}),
        ))
    }

    /// The address of an invitee: given, or of a contact.
    pub(super) async fn email_of(
        &self,
        acting: &Acting<'_>,
        invitee: &Value,
    ) -> Result<String, Failure> {
        if let Some(email) = invitee["email"].as_str() {
            return Ok(email.to_lowercase());
        }
        let id = invitee["contact_id"].as_str().unwrap_or_default();
        let query = RecordQuery {
            ids: Some(vec![id.to_owned()]),
            ..RecordQuery::of(RecordKind::Contact, &acting.owner.id, 1)
        };
        let found = self.store.project_records(acting.workspace, query).await;
        let found = found.map_err(|error| internal(&error))?.pop();
        let email = match found {
            Some(record) => shown_contact(&record)["email"].as_str().map(str::to_owned),
            None => {
                let people = self.members(acting).await?;
                let person = people.into_iter().find(|person| person.id.as_str() == id);
                Some(person.ok_or_else(|| not_found("contact"))?.email)
            }
        };
        email.ok_or_else(|| Failure::new(code::NOT_FOUND, "The contact has no email address."))
    }

    /// The people of the workspace, by name.
    async fn members(&self, acting: &Acting<'_>) -> Result<Vec<UserRow>, Failure> {
        let people = self.store.users().await.map_err(|error| internal(&error))?;
        let is_member = |person: &UserRow| {
            person
                .workspaces
                .iter()
                .any(|workspace| workspace.no == acting.workspace)
        };
        let mut people: Vec<UserRow> = people.into_iter().filter(is_member).collect();
        people.sort_by_key(|person| (person.name.to_lowercase(), person.email.clone()));
        Ok(people)
    }
}

fn shown_contact(record: &ProjectRecord) -> Value {
    let body: Value = serde_json::from_str(&record.body).unwrap_or_default();
    json!({"id": record.id, "name": body["name"], "email": body["email"], "phone": body["phone"],
        "note": body["note"], "source": "own"})
}

fn shown_user(person: &UserRow) -> Value {
    json!({"id": person.id.as_str(), "name": person.name, "email": person.email, "phone": null, "note": null,
        "source": "workspace"})
}
