//! Delegates of a request: their agents must exist, and their tools must not need a client.

use std::collections::BTreeSet;

use runloom_protocol::error::Issue;
use runloom_protocol::tools::{self, DelegateRef, DelegateSource, ToolRef, ToolsetRef};

use super::auth::Caller;
use crate::error::{Error, Result};
use crate::spec_resolver::SpecResolver;
use runloom_ports::error::Error as PortError;

/// A list of refs that is checked, and where it comes from.
struct Level {
    /// Path of the owner of the list, with a trailing dot; empty for the request itself.
    path: String,
    /// Set for refs of a stored agent, whose violations are reported at the delegate that names it.
    agent: Option<String>,
    tools: Vec<ToolRef>,
}

impl SpecResolver {
    /// Checks the delegates of a spec, at every level.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for an agent that the caller may not run; otherwise what is wrong, with its path.
    pub(super) async fn check_delegates(&self, caller: &Caller, tools: &[ToolRef]) -> Result<()> {
        let mut seen = BTreeSet::new();
        let mut levels = vec![Level {
            path: String::new(),
            agent: None,
            tools: tools.to_vec(),
        }];
        while let Some(level) = levels.pop() {
            for (index, tool) in level.tools.iter().enumerate() {
                let Some(delegate) = tool.delegate() else {
                    continue;
                };
                let path = format!("{}tools[{index}]", level.path);
                let at = level.agent.clone();
                let next = self.check_delegate(caller, delegate, &path, at, &mut seen);
                levels.extend(next.await?);
            }
        }
        Ok(())
    }

    /// Checks one delegate; returns the refs of its child, which are checked next.
    async fn check_delegate(
        &self,
        caller: &Caller,
        delegate: &DelegateRef,
        path: &str,
        agent: Option<String>,
        seen: &mut BTreeSet<String>,
    ) -> Result<Option<Level>> {
        let workspace = &caller.workspace.slug;
        let place = |key: &str| match &agent {
            Some(agent) => agent.clone(),
            None => format!("{path}.{key}"),
        };
        if let Some(model) = delegate.model_id.as_deref() {
            let found = self.catalog.find(workspace, Some(model)).await;
            found.map_err(|error| Error::from(error).at_field(&place("modelId")))?;
        }
        match delegate.source() {
            DelegateSource::Toolset { name, filter } => {
                let toolset = ToolRef::Toolset(ToolsetRef {
                    name: name.to_owned(),
                    tool_filter: filter.cloned(),
                });
                let checked = self.tools.check(workspace, &[toolset]).await;
                let place = place("toolset");
                checked.map_err(|error| below(error, path, Some(&place)))?;
                Ok(None)
            }
            DelegateSource::Tools(refs) => {
                let checked = self.tools.check(workspace, refs).await;
                checked.map_err(|error| below(error, path, agent.as_deref()))?;
                Ok(Some(Level {
                    path: format!("{path}."),
                    agent,
                    tools: refs.to_vec(),
                }))
            }
            DelegateSource::Agent(id) => {
                let found = self.registry.agent_in_full(caller, id.as_str()).await?;
                let (_, found) = found.ok_or_else(|| Error::Forbidden {
                    message: format!("The agent {id} is unknown, or not for this credential"),
                })?;
                let place = place("agentId");
                let mut client_tool = None;
                tools::visit(&found.tools, "", &mut |_, tool| {
                    client_tool = client_tool
                        .take()
                        .or(tool.client_tool().map(|it| it.name().to_owned()));
                });
                if let Some(name) = client_tool {
                    let message = format!(
                        "the agent {id} has the tool `{name}`, which the client executes; a delegate cannot use it"
                    );
                    return Err(Error::invalid(place, message));
                }
                Ok(seen.insert(id.to_string()).then(|| Level {
                    path: String::new(),
                    agent: Some(place),
                    tools: found.tools,
                }))
            }
        }
    }
}

/// The error of refs inside a delegate, with their whole paths.
fn below(error: PortError, path: &str, agent: Option<&str>) -> Error {
    match error {
        PortError::Invalid(issues) => {
            let whole = |issue: Issue| Issue {
                path: agent.map_or_else(|| format!("{path}.{}", issue.path), str::to_owned),
                ..issue
            };
            Error::Invalid(issues.into_iter().map(whole).collect())
        }
        other => other.into(),
    }
}
