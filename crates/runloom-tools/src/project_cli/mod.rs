//! `kind: "project"`: the tool `project_cli`, which runs the actions of the workspace's project in child processes.
//!
//! The checks before a process are pure (`runloom_project::check`); `process` keeps the contract with the child.

mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runloom_ports::effect::Effect;
use runloom_ports::error::{Chain, Result};
use runloom_ports::project::{CallIdentity, MintError, ProjectAuthority, RunProject};
use runloom_ports::secret::Secret;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{
    self, Invocation, Outcome, ServerTool, ToolContext, ToolDefinitions, ToolReport,
};
use runloom_project::module::Module;
use runloom_project::output::{Answer, ToolAgentOutput, read_answer};
use runloom_project::{
    Called, CheckedCall, Failure, ModuleSet, SKILLS, Status, TOOL_NAME, check, code,
};
use runloom_protocol::tools::ToolRef;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::content;
use crate::listing_budget::ListingBudget;
use crate::tool_kind::{IndexedRef, ToolKind};
use crate::workspace_limits::{Capacity, WorkspaceLimits};
use process::{ChildEnd, ChildLaunch};

const KIND: &str = "project";

const DESCRIPTION: &str = "Runs one action of this project: a module, a method and its input. Read an action's card first: \
module \"skills\", method \"read\".";

/// Processes of actions at once.
const PROCESSES: Capacity = Capacity {
    total: 32,
    per_workspace: 8,
};

/// What the project tool needs from outside.
#[derive(Clone)]
pub struct ProjectParts {
    /// The modules that this server can run.
    pub modules: Arc<ModuleSet>,
    /// Mints the credentials of calls.
    pub authority: Arc<dyn ProjectAuthority>,
    /// Program of the shipped modules.
    pub program: ProjectProgram,
}

/// The program that runs the actions of shipped modules, and its first arguments.
#[derive(Debug, Clone)]
pub struct ProjectProgram {
    /// The executable.
    pub program: PathBuf,
    /// Arguments before `MODULE METHOD --format json`.
    pub arguments: Vec<String>,
}

/// The project tool.
pub(crate) struct ProjectCli {
    parts: Option<ProjectParts>,
    definitions: Arc<dyn ToolDefinitions>,
    limits: WorkspaceLimits,
    tasks: Tasks,
}

impl ProjectCli {
    pub(crate) fn new(
        parts: Option<ProjectParts>,
        definitions: Arc<dyn ToolDefinitions>,
        tasks: &Tasks,
    ) -> Self {
        Self {
            parts,
            definitions,
            limits: WorkspaceLimits::new(PROCESSES),
            tasks: tasks.clone(),
        }
    }

    /// Runs the checks and, when they pass, the action.
    async fn act(
        &self,
        call: &ProjectCall<'_>,
        cancel: &CancellationToken,
    ) -> std::result::Result<Answer, Failure> {
        let workspace = &*call.identity.workspace;
        let (modules, project) = (&call.parts.modules, &*call.identity.project);
        match check(modules, workspace, project, call.arguments)? {
            CheckedCall::Answered(data) => Ok(Answer::Done(data)),
            CheckedCall::Run {
                module,
                method,
                input,
            } => {
                let action = Action {
                    module: &module,
                    method: &method,
                    input: &input,
                };
                self.run(call, action, cancel).await
            }
        }
    }

    /// Checks 6 to 11.
    async fn run(
        &self,
        call: &ProjectCall<'_>,
        action: Action<'_>,
        cancel: &CancellationToken,
    ) -> std::result::Result<Answer, Failure> {
        let fail = |code: &str, message: &str| {
            Failure::new(code, message).of(&action.module.name, action.method)
        };
        let project = &call.identity.project;
        let deadline = Instant::now() + Duration::from_millis(project.timeout_ms);
        let timeout = || {
            let limit = project.timeout_ms;
            fail(
                code::TIMEOUT,
                &format!("The action did not end within {limit} ms."),
            )
        };
        let live = call.parts.authority.is_source_live(&call.identity);
        if !live.await.unwrap_or_else(|error| {
            tracing::warn!(error = %Chain(&error), "cannot check the credential behind a project call");
            false
        }) {
            return Err(fail(code::CREDENTIAL_INVALID, REVOKED));
        }
        let waiting = self.limits.acquire(&call.identity.workspace);
        let waiting = tokio::time::timeout_at(deadline, waiting);
        let permit = tokio::select! {
            permit = waiting => permit.map_err(|_| timeout())?,
            () = cancel.cancelled() => return Err(fail(code::PROCESS_FAILED, CANCELLED)),
        };
        let opened = call.parts.authority.open_call(call.identity.clone()).await;
        let opened = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(MintError::Revoked)) => return Err(fail(code::CREDENTIAL_INVALID, REVOKED)),
            Ok(Err(MintError::NoApi)) => return Err(fail(code::PROCESS_UNAVAILABLE, UNAVAILABLE)),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot mint a project credential");
                return Err(fail(code::CREDENTIAL_INVALID, REVOKED));
            }
        };
        let launch = self
            .launch(call, action, &opened.credential, &opened.api)
            .await;
        let launch = launch.map_err(|error| {
            tracing::warn!(module = action.module.name, error = %Chain(&error), "module cannot be started");
            fail(code::PROCESS_UNAVAILABLE, UNAVAILABLE)
        })?;
        let ended = process::run(launch, deadline, cancel, &self.tasks).await;
        drop((opened, permit));
        let called = Called {
            module: &action.module.name,
            method: action.method,
        };
        match ended {
            ChildEnd::Exited { exit, stdout } => read_answer(called, exit, &stdout),
            ChildEnd::NotStarted => Err(fail(code::PROCESS_UNAVAILABLE, UNAVAILABLE)),
            ChildEnd::OutOfTime => Err(timeout()),
            ChildEnd::TooLarge => {
                let max = project.max_output_bytes;
                let message =
                    format!("The action's result has more than {max} bytes. Ask for less.");
                Err(fail(code::OUTPUT_TOO_LARGE, &message))
            }
            ChildEnd::Cancelled => Err(fail(code::PROCESS_FAILED, CANCELLED)),
        }
    }

    /// The child process of an action, with the secrets of its module filled in.
    async fn launch(
        &self,
        call: &ProjectCall<'_>,
        action: Action<'_>,
        credential: &Secret,
        api: &str,
    ) -> Result<ChildLaunch> {
        let workspace = &*call.identity.workspace;
        let mut secrets = vec![credential.clone()];
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TZ".to_owned(), "UTC".to_owned()),
        ]);
        let mut arguments = Vec::new();
        let (program, folder) = match &action.module.process {
            None => {
                arguments.extend(call.parts.program.arguments.iter().cloned());
                (call.parts.program.program.clone(), PathBuf::from("/"))
            }
            Some(process) => {
                for (name, value) in &process.env {
                    let filled = tools::fill_secrets(&*self.definitions, workspace, value).await?;
                    env.insert(name.clone(), filled.expose().to_owned());
                    if filled.expose() != value {
                        secrets.push(filled);
                    }
                }
                arguments.extend(process.args.iter().cloned());
                let program = match process.command.contains('/') {
                    true => process.folder.join(&process.command),
                    false => PathBuf::from(&process.command),
                };
                (program, process.folder.clone())
            }
        };
        let (module, method) = (&action.module.name, action.method);
        arguments.extend([module.clone(), method.to_owned()]);
        arguments.extend(["--format".to_owned(), "json".to_owned()]);
        let project = [
            ("CREDENTIAL", credential.expose()),
            ("API", api),
            ("WORKSPACE", workspace),
            ("RUN", call.identity.run.as_str()),
            ("CALL", &call.identity.call),
        ];
        for (name, value) in project {
            env.insert(format!("RUNLOOM_PROJECT_{name}"), value.to_owned());
        }
        Ok(ChildLaunch {
            label: format!("{module}.{method}"),
            program,
            arguments,
            folder,
            env,
            input: format!("{}\n", action.input),
            secrets,
            max_output_bytes: call.identity.project.max_output_bytes,
        })
    }
}

const REVOKED: &str = "The credential behind this run is not valid any more.";
const UNAVAILABLE: &str = "The action cannot be started on this server.";
const CANCELLED: &str = "The action was stopped.";

/// One call of the tool.
struct ProjectCall<'c> {
    parts: &'c ProjectParts,
    identity: CallIdentity,
    arguments: &'c Value,
}

/// An action that passed the checks.
#[derive(Clone, Copy)]
struct Action<'a> {
    module: &'a Module,
    method: &'a str,
    input: &'a Value,
}

#[async_trait]
impl ToolKind for ProjectCli {
    fn name(&self) -> &'static str {
        KIND
    }

    async fn check(&self, _: &str, _: &str, _: &ToolRef) -> Result<Option<String>> {
        Ok(Some(TOOL_NAME.to_owned()))
    }

    async fn resolve(
        &self,
        context: &ToolContext,
        reference: IndexedRef<'_>,
        _: &ListingBudget,
    ) -> Vec<ServerTool> {
        let (Some(project), Some(parts)) = (&context.project, &self.parts) else {
            return Vec::new();
        };
        vec![ServerTool {
            policy: None,
            annotations: None,
            name: TOOL_NAME.to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: parameters(),
            output_schema: None,
            effect: Effect::Once,
            from: reference.index,
            target: json!({"kind": KIND}),
            action_effects: Some(effects(&parts.modules, &context.workspace, project)),
        }]
    }

    async fn call(
        &self,
        context: &ToolContext,
        _: &ServerTool,
        call: Invocation,
        cancel: CancellationToken,
    ) -> Outcome {
        let (Some(project), Some(parts)) = (&context.project, &self.parts) else {
            return content::failure("This run has no project.");
        };
        let wanted = ProjectCall {
            parts,
            identity: CallIdentity {
                workspace: Arc::clone(&context.workspace),
                run: context.run.clone(),
                session: context.session.clone(),
                call: call.tool_use_id.clone(),
                project: Arc::clone(project),
            },
            arguments: &call.input,
        };
        let outcome = self.act(&wanted, &cancel).await;
        let name = |key: &str| {
            call.input
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let called = Called {
            module: name("module"),
            method: name("method"),
        };
        let output = ToolAgentOutput::new(&call.tool_use_id, &call.input, called, outcome);
        Outcome {
            content: output.text(),
            is_error: output.status() == Status::Failure,
            files: Vec::new(),
            report: Some(Box::new(ToolReport {
                metadata: output.metadata(),
                ui_hints: output.ui_hints().clone(),
                summary: output.summary(),
            })),
        }
    }
}

/// The schema of the tool, whatever the project contains.
fn parameters() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["module", "method", "input"],
        "properties": {
            "module": {"type": "string"},
            "method": {"type": "string"},
            "input": {"type": "object"},
        },
    })
}

/// The effect of every action that a call can start.
fn effects(modules: &ModuleSet, workspace: &str, project: &RunProject) -> BTreeMap<String, Effect> {
    let mut effects = BTreeMap::new();
    for router in &project.router {
        for name in &router.methods {
            let module = modules.module(workspace, &router.name);
            let method = module.and_then(|module| module.method(name));
            let effect = method.map_or(Effect::Once, |method| method.effect);
            effects.insert(format!("{}.{name}", router.name), effect);
        }
    }
    for method in ["list", "read"] {
        effects.insert(format!("{SKILLS}.{method}"), Effect::Read);
    }
    effects
}
