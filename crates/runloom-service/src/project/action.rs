//! One shipped action: reads are answered, changes are written once for each call.

use runloom_ports::effect::Effect;
use runloom_ports::project::{CallIdentity, Owner};
use runloom_ports::store::{
    CallReceipt, Millis, ProjectChange, ProjectChanged, ProjectWrite, StoreError, WorkspaceNo,
};
use runloom_project::{Failure, Method, code};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::ProjectService;
use crate::vault::hex;

/// How often a change is tried again because another one came between.
const ATTEMPTS: usize = 5;

/// For whom an action is run.
pub(super) struct Acting<'a> {
    pub(super) slug: &'a str,
    pub(super) workspace: WorkspaceNo,
    pub(super) owner: &'a Owner,
    pub(super) now: Millis,
}

/// The outcome of an action: its writes, and its response once they are written.
pub(super) struct Plan {
    pub(super) writes: Vec<ProjectWrite>,
    pub(super) data: Value,
    /// What was not done.
    pub(super) partial: Option<Failure>,
}

impl Plan {
    /// Nothing is written.
    pub(super) fn answer(data: Value) -> Self {
        Self {
            writes: Vec::new(),
            data,
            partial: None,
        }
    }

    pub(super) fn writing(writes: Vec<ProjectWrite>, data: Value) -> Self {
        Self {
            writes,
            data,
            partial: None,
        }
    }
}

/// An error of the store is told without its words.
pub(super) fn internal(error: &StoreError) -> Failure {
    tracing::error!(%error, "project action failed");
    Failure::new(code::INTERNAL, "The server failed; try again later.")
}

pub(super) fn not_found(what: &str) -> Failure {
    Failure::new(code::NOT_FOUND, format!("There is no such {what}."))
}

impl ProjectService {
    /// Runs an action whose input fits; the stdout object of the action.
    pub(super) async fn run_action(
        &self,
        identity: &CallIdentity,
        known: &Method,
        (module, method): (&str, &str),
        input: &Value,
    ) -> Result<Value, Failure> {
        let workspace = self.store.workspace(&identity.workspace).await;
        let workspace = workspace.map_err(|error| internal(&error))?;
        let workspace = workspace.ok_or_else(|| not_found("workspace"))?;
        let acting = Acting {
            slug: &identity.workspace,
            workspace: workspace.no,
            owner: &identity.project.owner,
            now: self.clock.now(),
        };
        let action = (module, method);
        if known.effect == Effect::Read {
            let plan = self.plan(&acting, action, input).await?;
            return Ok(reply(action, &plan));
        }
        let key = receipt_key(identity, action, input);
        let earlier = self.store.project_receipt(acting.workspace, &key).await;
        if let Some(response) = earlier.map_err(|error| internal(&error))? {
            return repeated(&response);
        }
        for _ in 0..ATTEMPTS {
            let plan = self.plan(&acting, action, input).await?;
            let reply = reply(action, &plan);
            let change = ProjectChange {
                workspace: acting.workspace,
                owner: acting.owner.id.clone(),
                receipt: Some(CallReceipt {
                    key: key.clone(),
                    response: reply.to_string(),
                }),
                writes: plan.writes,
                now: acting.now,
            };
            match self
                .store
                .change_project(change)
                .await
                .map_err(|error| internal(&error))?
            {
                ProjectChanged::Applied => return Ok(reply),
                ProjectChanged::Replayed(response) => return repeated(&response),
                ProjectChanged::Full => {
                    let message =
                        "There are as many entries as one owner may have. Delete some first.";
                    return Err(Failure::new(code::LIMIT_EXCEEDED, message));
                }
                ProjectChanged::Conflict => {}
            }
        }
        let message = "It was changed by others at the same time; read it again.";
        Err(Failure::new(code::CONFLICT, message))
    }

    async fn plan(
        &self,
        acting: &Acting<'_>,
        action: (&str, &str),
        input: &Value,
    ) -> Result<Plan, Failure> {
        match action {
            ("calendar", "read") => self.read_calendar(acting, input).await,
            ("calendar", "create") => self.create_event(acting, input),
            ("calendar", "update") => self.update_event(acting, input).await,
            ("calendar", "delete") => self.delete_event(acting, input).await,
            ("calendar", "share") => self.share_event(acting, input).await,
            ("calendar", "accept_invite") => self.answer_invite(acting, input, true).await,
            ("calendar", "reject_invite") => self.answer_invite(acting, input, false).await,
            ("contacts", "read") => self.read_contacts(acting, input).await,
            ("memory", "update") => self.update_memory(acting, input).await,
            ("memory", "read") => self.read_memory(acting, input).await,
            _ => Err(Failure::new(
                code::UNKNOWN_ACTION,
                "There is no such action.",
            )),
        }
    }
}

fn reply((module, method): (&str, &str), plan: &Plan) -> Value {
    match &plan.partial {
        None => json!({"ok": true, "module": module, "method": method, "data": plan.data}),
        Some(failure) => json!({"ok": true, "partial": true, "module": module, "method": method,
            "data": plan.data, "error": {"code": failure.code, "message": failure.message}}),
    }
}

fn repeated(response: &str) -> Result<Value, Failure> {
    serde_json::from_str(response).map_err(|_| {
        Failure::new(
            code::INTERNAL,
            "The first response of this call is damaged.",
        )
    })
}

/// Names a call, its action and its input: a module of the operator may run several actions in one call.
fn receipt_key(identity: &CallIdentity, (module, method): (&str, &str), input: &Value) -> String {
    let hash = Sha256::digest(input.to_string().as_bytes());
    format!(
        "{}/{}/{module}.{method}/{}",
        identity.run,
        identity.call,
        hex(&hash)
    )
}
