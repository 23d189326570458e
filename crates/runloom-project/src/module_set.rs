//! The modules that this server can run.

use std::sync::Arc;

use runloom_protocol::definition::ProjectDefinition;
use runloom_protocol::error::Issue;

use crate::module::Module;
use crate::shipped;

/// Every module that this server can run: the shipped ones, and the operator's with the workspaces that may name them.
#[derive(Debug, Clone, Default)]
pub struct ModuleSet {
    modules: Vec<OfferedModule>,
}

/// A module and who may name it.
#[derive(Debug, Clone)]
pub struct OfferedModule {
    /// The module.
    pub module: Arc<Module>,
    /// Slugs of workspaces; `None` for every workspace.
    pub workspaces: Option<Vec<String>>,
}

impl ModuleSet {
    /// The shipped modules, and these.
    #[must_use]
    pub fn with_operator(operator: Vec<OfferedModule>) -> Self {
        let shipped = shipped::modules().into_iter();
        let shipped = shipped.map(|module| OfferedModule {
            module,
            workspaces: None,
        });
        Self {
            modules: shipped.chain(operator).collect(),
        }
    }

    /// A module that a workspace may name.
    #[must_use]
    pub fn module(&self, workspace: &str, name: &str) -> Option<&Arc<Module>> {
        let offered = |one: &&OfferedModule| {
            let workspaces = one.workspaces.as_ref();
            one.module.name == name
                && workspaces.is_none_or(|all| all.iter().any(|slug| slug == workspace))
        };
        self.modules.iter().find(offered).map(|one| &one.module)
    }

    /// What is wrong with the modules and methods that a project names.
    #[must_use]
    pub fn issues(&self, workspace: &str, project: &ProjectDefinition) -> Vec<Issue> {
        let mut issues = Vec::new();
        for (index, named) in project.modules.iter().enumerate() {
            let Some(module) = self.module(workspace, &named.name) else {
                let known: Vec<&str> = self.names(workspace).collect();
                issues.push(Issue {
                    path: format!("modules[{index}].name"),
                    message: format!(
                        "there is no module of this name; this workspace may name: {}",
                        known.join(", ")
                    ),
                });
                continue;
            };
            for (at, method) in named.methods.iter().flatten().enumerate() {
                if module.method(method).is_none() {
                    let known: Vec<&str> = module
                        .methods
                        .iter()
                        .map(|known| known.name.as_str())
                        .collect();
                    issues.push(Issue {
                        path: format!("modules[{index}].methods[{at}]"),
                        message: format!(
                            "the module has no such method; it has: {}",
                            known.join(", ")
                        ),
                    });
                }
            }
        }
        issues
    }

    fn names<'s>(&'s self, workspace: &'s str) -> impl Iterator<Item = &'s str> {
        let names = self.modules.iter().map(|one| one.module.name.as_str());
        names.filter(move |name| self.module(workspace, name).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ModuleTexts;
    use serde_json::json;

    #[test]
    fn offers_a_module_to_its_workspaces_only() {
        let body = json!({"name": "crm", "description": "Customers.", "command": "./crm", "methods": [
            {"name": "find", "description": "Finds.", "input": {"type": "object"}}]});
        let texts = ModuleTexts {
            index: "# CRM".to_owned(),
            cards: [("find".to_owned(), "card".to_owned())].into(),
        };
        let module = Module::of_operator(&body, texts, "/m".into()).unwrap();
        let offered = OfferedModule {
            module: Arc::new(module),
            workspaces: Some(vec!["acme".to_owned()]),
        };
        let set = ModuleSet::with_operator(vec![offered]);
        assert!(set.module("acme", "crm").is_some() && set.module("other", "crm").is_none());
        assert!(set.module("other", "calendar").is_some());
    }
}
