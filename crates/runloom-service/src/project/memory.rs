//! `memory`: facts of an owner; those of the owner `workspace` are the workspace's memories.

use std::collections::BTreeMap;

use runloom_ports::clock::rfc3339;
use runloom_ports::error::Error;
use runloom_ports::memory::{Remember, WorkspaceMemory as _};
use runloom_ports::project::Owner;
use runloom_ports::store::{ProjectRecord, ProjectWrite, RecordKind, RecordQuery};
use runloom_project::call::invalid_input;
use runloom_project::input::InputIssue;
use runloom_project::{Failure, code};
use serde_json::{Value, json};

use super::ProjectService;
use super::action::{Acting, Plan, internal, not_found};

/// Memories of one owner.
const MEMORIES_MAX: usize = 10_000;
/// Memories of one answer when the input does not say.
const READ_DEFAULT: u64 = 8;
/// Words of a question that are looked for.
const WORDS_MAX: usize = 16;
/// Memories that one word may find.
const FOUND_MAX: usize = 200;

impl ProjectService {
    pub(super) async fn update_memory(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let key = input["key"].as_str().unwrap_or_default();
        let text = input["text"].as_str().filter(|_| input["mode"] == "set");
        if *acting.owner == Owner::workspace() {
            return self.update_workspace_memory(acting, key, text).await;
        }
        let found = self.memory_record(acting, key).await?;
        let Some(text) = text else {
            let record = found.ok_or_else(|| not_found("memory"))?;
            let write = ProjectWrite::Delete {
                kind: RecordKind::Memory,
                owner: record.owner,
                id: record.id,
            };
            let data = json!({"outcome": "forgotten", "key": key});
            return Ok(Plan::writing(vec![write], data));
        };
        let record = ProjectRecord {
            kind: RecordKind::Memory,
            owner: acting.owner.id.clone(),
            id: key.to_owned(),
            span: None,
            words: format!("{key}\n{text}").to_lowercase(),
            body: json!({"text": text, "updatedAt": rfc3339(acting.now)}).to_string(),
            version: found.as_ref().map_or(1, |found| found.version),
        };
        let (outcome, write) = match found {
            Some(_) => ("replaced", ProjectWrite::Update(record)),
            None => {
                let max = MEMORIES_MAX;
                ("created", ProjectWrite::Insert { record, max })
            }
        };
        Ok(Plan::writing(
            vec![write],
            json!({"outcome": outcome, "key": key}),
        ))
    }

    pub(super) async fn read_memory(
        &self,
        acting: &Acting<'_>,
        input: &Value,
    ) -> Result<Plan, Failure> {
        let query = input["query"].as_str().unwrap_or_default();
        let limit = input["limit"].as_u64().unwrap_or(READ_DEFAULT);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let items: Vec<Value> = if *acting.owner == Owner::workspace() {
            let found = self.memory.recall(acting.slug, query, limit).await;
            let found = found.map_err(|error| told(&error))?;
            let shown = found.memories.into_iter().map(|memory| {
                json!({"key": memory.key, "text": memory.text, "updatedAt": memory.updated_at})
            });
            shown.collect()
        } else {
            self.recall(acting, query, limit).await?
        };
        Ok(Plan::answer(json!({"count": items.len(), "items": items})))
    }

    async fn update_workspace_memory(
        &self,
        acting: &Acting<'_>,
        key: &str,
        text: Option<&str>,
    ) -> Result<Plan, Failure> {
        let outcome = match text {
            None => {
                let forgotten = self.memory.forget(acting.slug, key).await;
                forgotten.map_err(|error| told(&error))?;
                "forgotten"
            }
            Some(text) => {
                let memory = Remember {
                    key: Some(key.to_owned()),
                    text: text.to_owned(),
                    links: None,
                };
                let kept = self.memory.remember(acting.slug, memory).await;
                match kept.map_err(|error| told(&error))?.created {
                    true => "created",
                    false => "replaced",
                }
            }
        };
        Ok(Plan::answer(json!({"outcome": outcome, "key": key})))
    }

    /// The memories that share most words with a question, the newer first among equals.
    async fn recall(
        &self,
        acting: &Acting<'_>,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Value>, Failure> {
        let lower = query.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric());
        let mut hits: BTreeMap<String, (usize, String, Value)> = BTreeMap::new();
        for word in words.filter(|word| !word.is_empty()).take(WORDS_MAX) {
            let wanted = RecordQuery {
                contains: Some(word.to_owned()),
                ..RecordQuery::of(RecordKind::Memory, &acting.owner.id, FOUND_MAX)
            };
            let found = self.store.project_records(acting.workspace, wanted).await;
            for record in found.map_err(|error| internal(&error))? {
                let body: Value = serde_json::from_str(&record.body).unwrap_or_default();
                let updated = body["updatedAt"].as_str().unwrap_or_default().to_owned();
                let item = json!({"key": record.id, "text": body["text"], "updatedAt": updated});
                let hit = hits.entry(record.id).or_insert((0, updated, item));
                hit.0 += 1;
            }
        }
        let mut found: Vec<(usize, String, Value)> = hits.into_values().collect();
        found.sort_by(|one, two| (two.0, &two.1).cmp(&(one.0, &one.1)));
        Ok(found
            .into_iter()
            .take(limit)
            .map(|(_, _, item)| item)
            .collect())
    }

    async fn memory_record(
        &self,
        acting: &Acting<'_>,
        key: &str,
    ) -> Result<Option<ProjectRecord>, Failure> {
        let query = RecordQuery {
            ids: Some(vec![key.to_owned()]),
            ..RecordQuery::of(RecordKind::Memory, &acting.owner.id, 1)
        };
        let found = self.store.project_records(acting.workspace, query).await;
        Ok(found.map_err(|error| internal(&error))?.pop())
    }
}

/// An error of the workspace's memories, as an action says it.
fn told(error: &Error) -> Failure {
    match error {
        Error::NotFound { .. } => not_found("memory"),
        Error::Conflict { message } => Failure::new(code::LIMIT_EXCEEDED, message.clone()),
        Error::Invalid(issues) => {
            let issues: Vec<InputIssue> = issues
                .iter()
                .map(|issue| InputIssue {
                    path: issue.path.clone(),
                    message: issue.message.clone(),
                })
                .collect();
            invalid_input(
                json!({"mode": "string enum(set|forget)", "key": "string", "text": "string"}),
                &issues,
            )
        }
        other => {
            tracing::error!(error = %other, "workspace memory failed");
            Failure::new(code::INTERNAL, "The server failed; try again later.")
        }
    }
}
