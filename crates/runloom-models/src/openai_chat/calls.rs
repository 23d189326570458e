//! Assembles tool calls from their pieces.

use runloom_ports::model::{CallRequest, ModelError};
use serde_json::Value;

use super::wire::CallDelta;
use crate::tools;

/// Calls of one turn beyond this number are ignored.
const MAX_CALLS: usize = 1_024;

/// The calls of one turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Partial>,
}

#[derive(Debug, Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a piece. It belongs to the call with its index, or with its id if indexes are missing or all zero.
    pub(super) fn push(&mut self, delta: CallDelta<'_>) {
        let id = delta.id.unwrap_or_default();
        let known = self.calls.iter().rposition(|call| {
            let same_index =
                delta.index.is_none() || call.index.is_none() || call.index == delta.index;
            same_index && (id.is_empty() || call.id.is_empty() || call.id == id)
        });
        let name = delta
            .function
            .as_ref()
            .and_then(|function| function.name.clone());
        let at = match known {
            // Without index and id, a name begins a new call.
            Some(at) if delta.index.is_some() || !id.is_empty() || name.is_none() => at,
            _ if self.calls.len() >= MAX_CALLS => return,
            _ => {
                self.calls.push(Partial {
                    index: delta.index,
                    ..Partial::default()
                });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            // Some servers repeat the name with every piece.
            call.name = name.unwrap_or_default();
        }
        if let Some(raw) = delta.function.and_then(|function| function.arguments) {
            match serde_json::from_str::<Value>(raw.get()) {
                Ok(Value::String(piece)) => call.arguments.push_str(&piece),
                Ok(Value::Null) | Err(_) => {}
                Ok(whole) => call.arguments = whole.to_string(),
            }
        }
    }

    /// The complete calls, in the order of the model. A missing id is made from the number of the turn.
    pub(super) fn finish(&mut self, turn: usize) -> Vec<Result<CallRequest, ModelError>> {
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        calls
            .map(|(at, call)| {
                let input = tools::arguments(&call.name, &call.arguments)?;
                let id = if call.id.is_empty() {
                    format!("call_{turn}_{}", at + 1)
                } else {
                    call.id
                };
                Ok(CallRequest {
                    id,
                    name: call.name,
                    input,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assemble(pieces: &[Value]) -> Vec<(String, String, Value)> {
        let mut calls = Calls::default();
        for piece in pieces {
            calls.push(serde_json::from_str(&piece.to_string()).unwrap());
        }
        let calls = calls.finish(3).into_iter();
        calls
            .map(|call| call.map(|call| (call.id, call.name, call.input)).unwrap())
            .collect()
    }

    fn call(id: &str, name: &str, input: Value) -> (String, String, Value) {
        (id.to_owned(), name.to_owned(), input)
    }

    #[test]
    fn joins_pieces_by_index() {
        let calls = assemble(&[
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
            json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{\"y\""}}),
            json!({"index": 0, "function": {"arguments": "{\"x\":1}"}}),
            json!({"index": 1, "function": {"arguments": ":2}"}}),
        ]);
        assert_eq!(
            calls,
            [
                call("a", "f", json!({"x": 1})),
                call("b", "g", json!({"y": 2}))
            ]
        );
    }

    #[test]
    fn separates_calls_with_the_same_index_by_id() {
        let calls = assemble(&[
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
            json!({"index": 0, "id": "b", "function": {"name": "f", "arguments": {"x": 1}}}),
        ]);
        assert_eq!(
            calls,
            [call("a", "f", json!({})), call("b", "f", json!({"x": 1}))]
        );
    }

    #[test]
    fn separates_calls_without_index_and_id_by_name() {
        let calls = assemble(&[
            json!({"function": {"name": "f", "arguments": "{\"x\":"}}),
            json!({"function": {"arguments": "1}"}}),
            json!({"function": {"name": "g"}}),
        ]);
        assert_eq!(
            calls,
            [
                call("call_3_1", "f", json!({"x": 1})),
                call("call_3_2", "g", json!({}))
            ]
        );
    }

    #[test]
    fn joins_pieces_that_repeat_id_and_name() {
        let calls = assemble(&[
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}),
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "1}"}}),
        ]);
        assert_eq!(calls, [call("a", "f", json!({"x": 1}))]);
    }
}
