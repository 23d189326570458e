//! Templates inside definitions.

use serde_json::Value;

use crate::definition::template;
use crate::read::Node;

/// Refuses a string that is not a template.
pub(super) fn check(node: &Node<'_, '_>) {
    if let Some(Err(error)) = node.value().as_str().map(template::pieces) {
        node.refuse(error);
    }
}

/// Refuses every string inside the value that is not a template.
pub(super) fn check_inside(node: &Node<'_, '_>) {
    match node.value() {
        Value::String(_) => check(node),
        Value::Array(_) => {
            if let Some(array) = node.array(usize::MAX) {
                array.iter().for_each(|node| check_inside(&node));
            }
        }
        Value::Object(_) => {
            let fields = node.fields_or_empty();
            fields.entries().for_each(|(_, node)| check_inside(&node));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
