//! Modules: groups of methods that the server ships or an operator adds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use runloom_ports::effect::Effect;
use runloom_protocol::tools::is_project_name;
use serde::Deserialize;
use serde_json::Value;

use crate::input::InputType;
use crate::{SHIPPED, SKILLS};

/// Bytes of an index card.
pub const INDEX_MAX_BYTES: usize = 4096;
/// Bytes of an action's card.
pub const CARD_MAX_BYTES: usize = 16_384;
/// Methods of one module.
const METHODS_MAX: usize = 64;
/// Characters of a description.
const DESCRIPTION_MAX_CHARS: usize = 500;

/// Environment variables that the server sets for a child process.
pub const RESERVED_VARIABLES: &str = "RUNLOOM_PROJECT_";

/// One module.
#[derive(Debug, Clone)]
pub struct Module {
    /// `^[a-z][a-z0-9_]{0,31}$`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The index card.
    pub index: String,
    /// Its methods, in their order.
    pub methods: Vec<Method>,
    /// The program; `None` for a shipped module.
    pub process: Option<ModuleProcess>,
}

/// One method of a module.
#[derive(Debug, Clone)]
pub struct Method {
    /// `^[a-z][a-z0-9_]{0,31}$`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Whether a call may be repeated.
    pub effect: Effect,
    /// What its input must be.
    pub input: InputType,
    /// The card of the action.
    pub card: String,
}

/// How an operator's module is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleProcess {
    /// The program; relative to the folder when it has a `/`.
    pub command: String,
    /// Arguments before the server's.
    pub args: Vec<String>,
    /// Environment; values may name secrets as `{{secret:NAME}}`.
    pub env: BTreeMap<String, String>,
    /// The module's folder, where it is run.
    pub folder: PathBuf,
}

/// The texts of a module's folder.
#[derive(Debug, Clone, Default)]
pub struct ModuleTexts {
    /// `index.md`.
    pub index: String,
    /// The cards of its actions, by method.
    pub cards: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleFile {
    name: String,
    description: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    methods: Vec<MethodFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MethodFile {
    name: String,
    description: String,
    #[serde(default)]
    effect: Option<Effect>,
    input: Value,
}

/// The names of the methods of a module file, so that their cards can be read.
#[must_use]
pub fn method_names(body: &Value) -> Vec<String> {
    let methods = body.get("methods").and_then(Value::as_array);
    let name = |method: &Value| {
        method
            .get("name")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    methods.into_iter().flatten().filter_map(name).collect()
}

impl Module {
    /// A module of the operator.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn of_operator(
        body: &Value,
        texts: ModuleTexts,
        folder: PathBuf,
    ) -> Result<Self, Vec<String>> {
        let file = ModuleFile::deserialize(body).map_err(|error| vec![error.to_string()])?;
        let mut problems = Vec::new();
        if SHIPPED.contains(&file.name.as_str()) || file.name == SKILLS {
            problems.push(format!("the name `{}` is reserved", file.name));
        }
        for variable in file.env.keys() {
            if variable.starts_with(RESERVED_VARIABLES) || !is_variable(variable) {
                problems.push(format!(
                    "env: `{variable}` cannot be set: names are letters, digits and _, and {RESERVED_VARIABLES}… is \
                     the server's"
                ));
            }
        }
        let process = match &file.command {
            Some(command) if !command.is_empty() => Some(ModuleProcess {
                command: command.clone(),
                args: file.args.clone(),
                env: file.env.clone(),
                folder,
            }),
            _ => {
                problems.push("command is required: the program to start".to_owned());
                None
            }
        };
        let module = build(file, texts, process, &mut problems);
        if problems.is_empty() {
            Ok(module)
        } else {
            Err(problems)
        }
    }

    /// A module of the server, from texts that come with it.
    pub(crate) fn shipped(body: &str, texts: ModuleTexts) -> Result<Self, Vec<String>> {
        let body: ModuleFile =
            serde_json::from_str(body).map_err(|error| vec![error.to_string()])?;
        let mut problems = Vec::new();
        let module = build(body, texts, None, &mut problems);
        if problems.is_empty() {
            Ok(module)
        } else {
            Err(problems)
        }
    }

    /// The method of a name.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name == name)
    }
}

fn build(
    file: ModuleFile,
    mut texts: ModuleTexts,
    process: Option<ModuleProcess>,
    problems: &mut Vec<String>,
) -> Module {
    let mut check = |problem: bool, message: String| {
        if problem {
            problems.push(message);
        }
    };
    let rule = "must be 1 to 32 of a-z, 0-9 and _, beginning with a letter";
    check(!is_project_name(&file.name), format!("name {rule}"));
    let described = |text: &str| (1..=DESCRIPTION_MAX_CHARS).contains(&text.chars().count());
    let lengths = format!("must have 1 to {DESCRIPTION_MAX_CHARS} characters");
    check(
        !described(&file.description),
        format!("description {lengths}"),
    );
    check(
        file.methods.is_empty() || file.methods.len() > METHODS_MAX,
        format!("methods must have 1 to {METHODS_MAX} entries"),
    );
    check(
        texts.index.len() > INDEX_MAX_BYTES,
        format!("index.md has more than {INDEX_MAX_BYTES} bytes"),
    );
    let mut seen = BTreeSet::new();
    let mut methods = Vec::new();
    for method in file.methods {
        let name = method.name;
        check(
            !is_project_name(&name),
            format!("methods: the name `{name}` {rule}"),
        );
        check(
            !seen.insert(name.clone()),
            format!("methods: `{name}` is given twice"),
        );
        check(
            !described(&method.description),
            format!("methods: the description of `{name}` {lengths}"),
        );
        let card = texts.cards.remove(&name);
        check(
            card.is_none(),
            format!("`{name}` has no card: {name}.md is missing"),
        );
        let card = card.unwrap_or_default();
        check(
            card.len() > CARD_MAX_BYTES,
            format!("{name}.md has more than {CARD_MAX_BYTES} bytes"),
        );
        match InputType::new(&method.input) {
            Ok(input) => methods.push(Method {
                name,
                description: method.description,
                effect: method.effect.unwrap_or(Effect::Once),
                input,
                card,
            }),
            Err(problem) => check(true, format!("methods: the input of `{name}`: {problem}")),
        }
    }
    Module {
        name: file.name,
        description: file.description,
        index: texts.index,
        methods,
        process,
    }
}

fn is_variable(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(letter) && !name.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(cards: &[&str]) -> ModuleTexts {
        ModuleTexts {
            index: "# CRM".to_owned(),
            cards: cards
                .iter()
                .map(|name| ((*name).to_owned(), "card".to_owned()))
                .collect(),
        }
    }

    fn body(name: &str) -> Value {
        json!({"name": name, "description": "Customers.", "command": "./crm", "methods": [
            {"name": "find", "description": "Finds.", "effect": "read", "input": {"type": "object"}}]})
    }

    #[test]
    fn reads_a_module_of_an_operator() {
        let module = Module::of_operator(&body("crm"), texts(&["find"]), "/m".into()).unwrap();
        assert_eq!(module.methods[0].effect, Effect::Read);
    }

    #[test]
    fn refuses_what_cannot_be_a_module() {
        let with = |key: &str, value: Value| {
            let mut body = body("crm");
            body[key] = value;
            body
        };
        for (body, cards, part) in [
            (body("calendar"), vec!["find"], "reserved"),
            (body("skills"), vec!["find"], "reserved"),
            (body("Crm"), vec!["find"], "1 to 32"),
            (body("crm"), vec![], "find.md"),
            (with("command", json!("")), vec!["find"], "command"),
            (with("shell", json!(true)), vec!["find"], "shell"),
            (
                with("env", json!({"RUNLOOM_PROJECT_RUN": "x"})),
                vec!["find"],
                "env",
            ),
            (with("methods", json!([])), vec![], "methods"),
        ] {
            let problems = Module::of_operator(&body, texts(&cards), "/m".into()).unwrap_err();
            assert!(
                problems.iter().any(|problem| problem.contains(part)),
                "{part}: {problems:?}"
            );
        }
    }
}
