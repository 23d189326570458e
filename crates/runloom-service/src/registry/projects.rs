//! Projects of workspaces: what their definitions must be, and what refs may say of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use runloom_ports::project::RouterModule;
use runloom_ports::store::{DocumentKind, WorkspaceRow};
use runloom_project::ModuleSet;
use runloom_protocol::definition::{AgentDefinition, ProjectDefinition};
use runloom_protocol::error::Issue;
use runloom_protocol::tools::{ActionPattern, ProjectToolRef, ToolRef};
use serde::Deserialize as _;
use serde_json::Value;

use super::{Author, RegistryService};
use crate::error::{Error, Result};

/// The slug of a workspace's only project.
pub const PROJECT: &str = "project";

/// The actions of a workspace's project, and its limits.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceProject {
    pub(crate) definition: ProjectDefinition,
    pub(crate) router: Vec<RouterModule>,
}

impl RegistryService {
    /// Knows the modules that projects may name, and the workspaces whose project the configuration declares.
    #[must_use]
    pub fn with_projects(mut self, modules: Arc<ModuleSet>, configured: BTreeSet<String>) -> Self {
        self.modules = modules;
        self.configured_projects = configured;
        self
    }

    /// The modules that projects may name.
    #[must_use]
    pub fn modules(&self) -> &Arc<ModuleSet> {
        &self.modules
    }

    /// The project of a workspace, with what of it exists on this server.
    pub(crate) async fn project(
        &self,
        workspace: &WorkspaceRow,
    ) -> Result<Option<WorkspaceProject>> {
        let kind = DocumentKind::Project;
        let Some(found) = self.store.document(workspace.no, kind, PROJECT).await? else {
            return Ok(None);
        };
        let definition: ProjectDefinition = self.read(workspace, &found)?;
        let named = definition.modules.iter().filter_map(|named| {
            let module = self.modules.module(&workspace.slug, &named.name)?;
            let chosen = |name: &str| {
                let methods = named.methods.as_ref();
                methods.is_none_or(|methods| methods.iter().any(|method| method == name))
            };
            let methods = module.methods.iter().map(|method| method.name.clone());
            Some(RouterModule {
                name: module.name.clone(),
                methods: methods.filter(|name| chosen(name)).collect(),
            })
        });
        Ok(Some(WorkspaceProject {
            router: named.collect(),
            definition,
        }))
    }

    /// Refuses project refs that name what the project does not have.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every violation.
    pub(crate) async fn check_project_refs(
        &self,
        workspace: &WorkspaceRow,
        tools: &[ToolRef],
    ) -> Result<()> {
        let refs = tools
            .iter()
            .enumerate()
            .filter_map(|(index, tool)| match tool {
                ToolRef::Project(tool) => Some((index, tool)),
                _ => None,
            });
        let mut issues = Vec::new();
        for (index, tool) in refs {
            match self.project(workspace).await? {
                None => issues.push(no_project(index)),
                Some(project) => issues.extend(project.issues(index, tool)),
            }
        }
        if issues.is_empty() {
            Ok(())
        } else {
            Err(Error::Invalid(issues))
        }
    }

    pub(super) fn check_project(&self, workspace: &WorkspaceRow, body: &Value) -> Result<()> {
        let project = ProjectDefinition::deserialize(body).map_err(Error::internal)?;
        let issues = self.modules.issues(&workspace.slug, &project);
        if issues.is_empty() {
            Ok(())
        } else {
            Err(Error::Invalid(issues))
        }
    }

    pub(super) async fn check_agents_project(
        &self,
        workspace: &WorkspaceRow,
        body: &Value,
    ) -> Result<()> {
        let agent = AgentDefinition::deserialize(body).map_err(Error::internal)?;
        self.check_project_refs(workspace, &agent.tools).await
    }

    /// A project that the configuration file declares cannot be changed otherwise.
    pub(super) fn refuse_configured(
        &self,
        author: Author,
        workspace: &str,
        kind: DocumentKind,
    ) -> Result<()> {
        let declared =
            kind == DocumentKind::Project && self.configured_projects.contains(workspace);
        if declared && author == Author::Administrator {
            return Err(Error::Conflict {
                message: "The configuration file declares the project of this workspace; change it there.".to_owned(),
            });
        }
        Ok(())
    }
}

impl WorkspaceProject {
    /// What of a ref the project does not have.
    fn issues(&self, index: usize, tool: &ProjectToolRef) -> Vec<Issue> {
        let issue = |field: &str, at: usize, message: &str| Issue {
            path: format!("tools[{index}].{field}[{at}]"),
            message: message.to_owned(),
        };
        let mut issues = Vec::new();
        for (at, entry) in tool.allow.iter().flatten().enumerate() {
            let pattern = ActionPattern::parse(entry);
            if !pattern.is_some_and(|pattern| self.names_action(pattern)) {
                issues.push(issue(
                    "allow",
                    at,
                    "the project of this workspace has no such action",
                ));
            }
        }
        for (at, skill) in tool.enabled_skills.iter().flatten().enumerate() {
            if !self.router.iter().any(|module| module.name == *skill) {
                issues.push(issue(
                    "enabledSkills",
                    at,
                    "the project of this workspace has no such module",
                ));
            }
        }
        issues
    }

    fn names_action(&self, pattern: ActionPattern<'_>) -> bool {
        self.actions()
            .any(|(module, method)| pattern.names(module, method))
    }

    fn actions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.router.iter().flat_map(|module| {
            let methods = module.methods.iter();
            methods.map(|method| (module.name.as_str(), method.as_str()))
        })
    }

    /// The actions that a ref allows, in the router's order.
    pub(crate) fn allowed(&self, tool: &ProjectToolRef) -> Vec<String> {
        let patterns = tool.allow.as_ref().map(|allow| {
            let patterns = allow.iter().filter_map(|entry| ActionPattern::parse(entry));
            patterns.collect::<Vec<_>>()
        });
        let is_allowed = |module: &str, method: &str| {
            let patterns = patterns.as_ref();
            patterns.is_none_or(|all| all.iter().any(|pattern| pattern.names(module, method)))
        };
        let allowed = self
            .actions()
            .filter(|(module, method)| is_allowed(module, method));
        allowed
            .map(|(module, method)| format!("{module}.{method}"))
            .collect()
    }

    /// The skills that a ref enables, in the project's order.
    pub(crate) fn skills(&self, tool: &ProjectToolRef) -> Vec<String> {
        let allowed = self.allowed(tool);
        let is_enabled = |name: &String| match &tool.enabled_skills {
            Some(skills) => skills.contains(name),
            None => allowed.iter().any(|action| {
                action
                    .split_once('.')
                    .is_some_and(|(module, _)| module == name)
            }),
        };
        let names = self.router.iter().map(|module| module.name.clone());
        names.filter(is_enabled).collect()
    }
}

/// The issue of a project ref in a workspace without a project.
pub(crate) fn no_project(index: usize) -> Issue {
    Issue {
        path: format!("tools[{index}]"),
        message: "this workspace has no project".to_owned(),
    }
}
