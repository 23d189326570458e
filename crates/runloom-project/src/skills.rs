//! Skills: index cards after the system prompt, cards of actions by `skills.read`. Seeing a card grants nothing.

use std::sync::LazyLock;

use runloom_ports::project::{RouterModule, RunProject};
use serde_json::{Value, json};

use crate::failure::{Failure, code};
use crate::input::InputType;
use crate::module_set::ModuleSet;

const HEAD: &str = "# Project\n\nAct only through the tool project_cli. Before you use an action for the first time, read its card:\n\
{\"module\":\"skills\",\"method\":\"read\",\"input\":{\"skill\":\"<module>\",\"action\":\"<method>\"}}\n";

static LIST: LazyLock<Option<InputType>> =
    LazyLock::new(|| InputType::new(&json!({"type": "object", "properties": {}})).ok());

static READ: LazyLock<Option<InputType>> = LazyLock::new(|| {
    InputType::new(
        &json!({"type": "object", "required": ["skill"], "properties": {
        "skill": {"type": "string", "minLength": 1, "maxLength": 32},
        "action": {"type": "string", "minLength": 1, "maxLength": 32}}}),
    )
    .ok()
});

/// What the model is told of the enabled skills; empty without any.
#[must_use]
pub fn prompt(modules: &ModuleSet, workspace: &str, skills: &[String]) -> String {
    let enabled = skills
        .iter()
        .filter_map(|name| modules.module(workspace, name));
    let cards: Vec<&str> = enabled
        .map(|module| module.index.trim_end_matches('\n'))
        .collect();
    if cards.is_empty() {
        return String::new();
    }
    format!("{HEAD}\n{}", cards.join("\n\n"))
}

/// The input of a method of `skills`; `None` for no such method.
pub(crate) fn input_type(method: &str) -> Option<&'static InputType> {
    match method {
        "list" => LIST.as_ref(),
        "read" => READ.as_ref(),
        _ => None,
    }
}

/// `data` of `skills.list` or `skills.read`. Only enabled skills exist here.
pub(crate) fn answer(
    modules: &ModuleSet,
    workspace: &str,
    project: &RunProject,
    method: &str,
    input: &Value,
) -> Result<Value, Failure> {
    let enabled = |router: &&RouterModule| project.skills.contains(&router.name);
    let shown = project.router.iter().filter(enabled);
    if method == "list" {
        let items: Vec<Value> = shown
            .filter_map(|router| {
                let module = modules.module(workspace, &router.name)?;
                Some(json!({"skill": module.name, "description": module.description, "actions": router.methods}))
            })
            .collect();
        return Ok(json!({"count": items.len(), "items": items}));
    }
    let missing = || {
        let names: Vec<&str> = project.skills.iter().map(String::as_str).collect();
        let message = format!(
            "There is no such card. The skills are: {}.",
            names.join(", ")
        );
        Failure::new(code::NOT_FOUND, message)
    };
    let (skill, action) = (input["skill"].as_str(), input["action"].as_str());
    let mut shown = shown;
    let router = shown.find(|router| Some(router.name.as_str()) == skill);
    let router = router.ok_or_else(missing)?;
    let module = modules
        .module(workspace, &router.name)
        .ok_or_else(missing)?;
    let text = match action {
        None => &module.index,
        Some(action) => {
            let known = router.methods.iter().find(|method| *method == action);
            let method = known
                .and_then(|name| module.method(name))
                .ok_or_else(missing)?;
            &method.card
        }
    };
    Ok(json!({"skill": module.name, "action": action, "text": text}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_has_index_cards_and_no_cards_of_actions() {
        let modules = ModuleSet::with_operator(Vec::new());
        let names = ["calendar".to_owned(), "memory".to_owned()];
        let text = prompt(&modules, "acme", &names);
        assert!(text.starts_with("# Project\n\nAct only through the tool project_cli."));
        for module in ["calendar", "memory"] {
            let module = modules.module("acme", module).unwrap();
            assert!(text.contains(module.index.trim_end()));
            assert!(
                module
                    .methods
                    .iter()
                    .all(|method| !text.contains(&method.card))
            );
        }
        assert_eq!(prompt(&modules, "acme", &[]), "");
    }
}
