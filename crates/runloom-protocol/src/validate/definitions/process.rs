//! Processes of the server's machine that plugins and toolsets of the operator start.

use std::collections::BTreeMap;

use crate::definition::{ProcessSpec, template};
use crate::limits;
use crate::read::{Fields, Node};

/// The process that `command`, `args` and `env` describe; its label is empty.
pub(super) fn read(fields: &Fields<'_, '_>, node: &Node<'_, '_>) -> Option<ProcessSpec> {
    let command = node.filled_text(limits::PROCESS_WORD_MAX_BYTES);
    if command.is_some_and(|command| command.contains('\0')) {
        node.refuse("must not contain a NUL");
    }
    let args = words(fields, "args", limits::PROCESS_ARGUMENTS_MAX);
    let env = variables(fields);
    Some(ProcessSpec {
        label: String::new(),
        command: command?.to_owned(),
        args: args.unwrap_or_default(),
        env,
        folder: None,
    })
}

/// Texts that can be arguments of a process.
pub(super) fn words(fields: &Fields<'_, '_>, key: &'static str, max: usize) -> Option<Vec<String>> {
    fields.list(key, max, |node| word(&node).map(str::to_owned))
}

/// A text that can be an argument or a variable of a process.
fn word<'v>(node: &Node<'v, '_>) -> Option<&'v str> {
    let text = node.string()?;
    let max = limits::PROCESS_WORD_MAX_BYTES;
    if text.len() > max || text.contains('\0') {
        node.refuse(format_args!("must be at most {max} bytes, without a NUL"));
        return None;
    }
    Some(text)
}

/// Environment variables of a process. Values never appear in a message: they may be secrets.
fn variables(fields: &Fields<'_, '_>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Some(node) = fields.get("env") else {
        return variables;
    };
    let Some(fields) = node.fields() else {
        return variables;
    };
    node.has_entries_within(fields.object().len(), limits::PROCESS_VARIABLES_MAX);
    for (name, node) in fields.entries() {
        if !is_variable_name(name) {
            node.refuse("not a variable's name: expected letters, digits and _");
        }
        let Some(text) = word(&node) else {
            continue;
        };
        let is_argument =
            |piece: &template::Piece<'_>| matches!(piece, template::Piece::Argument(_));
        match template::pieces(text) {
            Err(error) => node.refuse(error),
            Ok(pieces) if pieces.iter().any(is_argument) => {
                node.refuse("only `{{secret:NAME}}` can be filled in here");
            }
            Ok(_) => drop(variables.insert(name.to_owned(), text.to_owned())),
        }
    }
    variables
}

fn is_variable_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins_with_digit = name.bytes().next().is_none_or(|byte| byte.is_ascii_digit());
    !begins_with_digit && name.bytes().all(plain)
}
