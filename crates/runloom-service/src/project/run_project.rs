//! What a run keeps of its workspace's project.

use std::sync::Arc;

use runloom_ports::project::{RunProject, Via};
use runloom_protocol::tools::ToolRef;

use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::registry::{RegistryService, no_project};
use runloom_project::skills;

impl RegistryService {
    /// The router, the allow-list and the skills of a new run; `None` without a project ref.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the workspace has no project.
    pub(crate) async fn run_project(
        &self,
        caller: &Caller,
        tools: &[ToolRef],
        via: Via,
    ) -> Result<Option<Arc<RunProject>>> {
        let found = tools
            .iter()
            .enumerate()
            .find_map(|(index, tool)| match tool {
                ToolRef::Project(tool) => Some((index, tool)),
                _ => None,
            });
        let Some((index, tool)) = found else {
            return Ok(None);
        };
        let project = self.project(&caller.workspace).await?;
        let project = project.ok_or_else(|| Error::Invalid(vec![no_project(index)]))?;
        let enabled = project.skills(tool);
        let prompt = skills::prompt(self.modules(), &caller.workspace.slug, &enabled);
        Ok(Some(Arc::new(RunProject {
            owner: caller.owner.clone(),
            source: caller.key_id.to_string(),
            via,
            allow: project.allowed(tool),
            prompt,
            skills: enabled,
            timeout_ms: project.definition.timeout_ms,
            max_output_bytes: project.definition.max_output_bytes,
            credential_ttl_seconds: project.definition.credential_ttl_seconds,
            router: project.router,
        })))
    }
}
