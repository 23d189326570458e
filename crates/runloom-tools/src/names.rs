//! Model-facing tool names: valid for every provider, unique in the run, the same at every resolution.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use runloom_ports::error::{Error, Result};
use runloom_ports::tools::ServerTool;
use runloom_protocol::error::Issue;
use runloom_protocol::limits::TOOL_NAME_MAX_CHARS;
use runloom_protocol::tools::{ClientTool, ToolRef};
use sha2::{Digest, Sha256};

/// Hash digits that replace the end of a name that is too long.
const HASH_DIGITS: usize = 8;

/// Makes the name match `^[a-zA-Z0-9_]{1,64}$`. A shortened name ends in a hash of the full one, so that long names
/// stay distinct.
pub(crate) fn valid(name: &str) -> String {
    let mut made: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if made.is_empty() {
        "_".clone_into(&mut made);
    }
    if made.len() > TOOL_NAME_MAX_CHARS {
        made.truncate(TOOL_NAME_MAX_CHARS - HASH_DIGITS - 1);
        made.push('_');
        made.push_str(&hash(name)[..HASH_DIGITS]);
    }
    made
}

/// Hexadecimal SHA-256.
pub(crate) fn hash(text: &str) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The names of the tools of a client-resolved ref, which are used as they are.
fn client_tool_names(tool: &ToolRef) -> Vec<String> {
    let names = tool.client_tool().map(ClientTool::model_facing_names);
    let names = names.into_iter().flatten();
    names.map(Cow::into_owned).collect()
}

/// A ref's path in the spec, and its tool's name as far as it is known before a peer is asked.
pub(crate) struct NamedRef {
    pub(crate) path: String,
    pub(crate) name: Option<String>,
}

/// Refuses two refs with the same tool name. Names that a peer lists are not known yet: [`make_unique`] handles them.
///
/// # Errors
/// [`Error::Invalid`] with every duplicate name.
pub(crate) fn check_duplicates(refs: &[ToolRef], named: &[NamedRef]) -> Result<()> {
    let mut first: HashMap<String, &str> = HashMap::new();
    let mut issues = Vec::new();
    for (tool, NamedRef { path, name }) in refs.iter().zip(named) {
        let own = name.as_deref().map(valid);
        for name in own.into_iter().chain(client_tool_names(tool)) {
            if let Some(other) = first.get(name.as_str()) {
                issues.push(Issue {
                    path: path.clone(),
                    message: format!("duplicate tool name `{name}`: already used by {other}"),
                });
            } else {
                first.insert(name, path);
            }
        }
    }
    if issues.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(issues))
    }
}

/// Makes the names of resolved tools valid and unique. Client tools keep their names; of several resolved tools the
/// first keeps its name and later ones get a number, in the order of the tools.
pub(crate) fn make_unique(refs: &[ToolRef], tools: &mut [ServerTool]) {
    let mut taken: HashSet<String> = refs.iter().flat_map(client_tool_names).collect();
    for tool in tools {
        let base = valid(&tool.name);
        let mut name = base.clone();
        let mut number = 2_usize;
        while !taken.insert(name.clone()) {
            let suffix = format!("_{number}");
            let room = TOOL_NAME_MAX_CHARS - suffix.len();
            name = format!("{}{suffix}", &base[..base.len().min(room)]);
            number += 1;
        }
        tool.name = name;
    }
}

#[cfg(test)]
mod tests {
    use runloom_ports::effect::Effect;
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str) -> ServerTool {
        ServerTool {
            action_effects: None,
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            output_schema: None,
            effect: Effect::Once,
            annotations: None,
            policy: None,
            from: 0,
            target: Value::Null,
        }
    }

    #[test]
    fn names_become_valid_and_long_ones_stay_distinct() {
        assert_eq!(valid("docs_search"), "docs_search");
        assert_eq!(valid("my-docs.v2/sök"), "my_docs_v2_s_k");
        assert_eq!(valid(""), "_");
        let long = "a".repeat(80);
        let (one, two) = (valid(&format!("{long}1")), valid(&format!("{long}2")));
        assert_eq!((one.len(), two.len()), (64, 64));
        assert_ne!(one, two);
        assert_eq!(one, valid(&format!("{long}1")));
    }

    #[test]
    fn numbers_duplicate_names_and_keeps_client_names() {
        let refs = [serde_json::from_value(json!({"kind": "local", "name": "a_x"})).unwrap()];
        let mut tools = [tool("a_x"), tool("a.x"), tool("b"), tool("a_x_2")];
        make_unique(&refs, &mut tools);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a_x_2", "a_x_3", "b", "a_x_2_2"]);
    }
}
