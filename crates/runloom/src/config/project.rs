//! `[[project_modules]]` and `[workspaces.project]`: the operator's modules, and the projects of workspaces.

use std::collections::BTreeSet;
use std::sync::Arc;

use runloom_project::{Module, OfferedModule};
use runloom_protocol::validate;
use serde_json::Value;

use super::table_reader::Table;
use crate::module_folder;

/// The operator's modules.
pub(super) fn read_modules(root: &Table<'_>) -> Vec<OfferedModule> {
    let mut seen = BTreeSet::new();
    root.tables("project_modules", |table| {
        let path = table.required("path");
        let workspaces = table.has("workspaces").then(|| table.texts("workspaces"));
        table.finish();
        let folder = table.surroundings.resolve(&path?);
        let module: Module = match module_folder::read(&folder) {
            Ok(module) => module,
            Err(problems) => {
                for problem in problems {
                    table.refuse("path", problem);
                }
                return None;
            }
        };
        if !seen.insert(module.name.clone()) {
            table.refuse(
                "path",
                format_args!("the module `{}` is given twice", module.name),
            );
        }
        Some(OfferedModule {
            module: Arc::new(module),
            workspaces,
        })
    })
}

/// The project of a workspace, as the admin API takes it. Whether its modules exist is checked at the start.
pub(super) fn read_project(workspace: &Table<'_>) -> Option<Value> {
    let table = workspace.table("project")?;
    let body = Value::Object(table.object().clone());
    for issue in validate::project_definition(&body)
        .err()
        .into_iter()
        .flatten()
    {
        table.refuse_issue(&issue);
    }
    Some(body)
}
