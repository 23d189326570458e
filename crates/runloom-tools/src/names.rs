//! Model-facing names: valid for every provider, unique in the run, the same at every resolution.

use std::collections::{HashMap, HashSet};

use runloom_ports::error::{Error, Result};
use runloom_ports::tools::ServerTool;
use runloom_protocol::error::Issue;
use runloom_protocol::limits::TOOL_NAME_MAX_CHARS;
use runloom_protocol::tools::{ClientTool, ToolRef};
use sha2::{Digest, Sha256};

/// Digits of a hash that stand for the part of a long name that was cut off.
const HASH_DIGITS: usize = 8;

/// Makes the name match `^[a-zA-Z0-9_]{1,64}$`. A name that is cut ends in a hash of the whole, so that two long names stay two.
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

/// The names of tools that the client executes, which are as it wrote them.
fn of_the_client(tool: &ToolRef) -> Vec<String> {
    let names = tool.client_tool().map(ClientTool::model_facing_names);
    let names = names.into_iter().flatten();
    names.map(str::to_owned).collect()
}

/// Refuses two tools under one name, for each ref its path and the name of its tool. Names that only a peer's listing brings are not known yet:
/// [`settle`] makes them unique.
///
/// # Errors
/// [`Error::Invalid`] with every name that is there twice.
pub(crate) fn refuse_twins(refs: &[ToolRef], known: &[(String, Option<String>)]) -> Result<()> {
    let mut first: HashMap<String, &str> = HashMap::new();
    let mut twins = Vec::new();
    for (tool, (path, name)) in refs.iter().zip(known) {
        let own = name.as_deref().map(valid);
        for name in own.into_iter().chain(of_the_client(tool)) {
            if let Some(other) = first.get(name.as_str()) {
                twins.push(Issue {
                    path: path.clone(),
                    message: format!("duplicate tool name `{name}`: already used by {other}"),
                });
            } else {
                first.insert(name, path);
            }
        }
    }
    if twins.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(twins))
    }
}

/// Makes the names of the resolved tools valid and unique beside those of the client's tools, which keep theirs. The first
/// keeps its name, later ones are numbered, in the order of the tools.
pub(crate) fn settle(refs: &[ToolRef], tools: &mut [ServerTool]) {
    let mut taken: HashSet<String> = refs.iter().flat_map(of_the_client).collect();
    for tool in tools {
        let base = valid(&tool.name);
        let mut name = base.clone();
        let mut number = 2_usize;
        while !taken.insert(name.clone()) {
            let ending = format!("_{number}");
            let room = TOOL_NAME_MAX_CHARS - ending.len();
            name = format!("{}{ending}", &base[..base.len().min(room)]);
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
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            output_schema: None,
            effect: Effect::Once,
            from: 0,
            target: Value::Null,
        }
    }

    #[test]
    fn names_become_valid_and_long_ones_stay_apart() {
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
    fn clashing_names_are_numbered_and_the_clients_tools_keep_theirs() {
        let refs = [serde_json::from_value(json!({"kind": "local", "name": "a_x"})).unwrap()];
        let mut tools = [tool("a_x"), tool("a.x"), tool("b"), tool("a_x_2")];
        settle(&refs, &mut tools);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a_x_2", "a_x_3", "b", "a_x_2_2"]);
    }
}
