//! What one value costs at most: every subschema that applies to it in place, counted as often as it applies.

use crate::error::{SchemaError, SchemaErrorKind};
use crate::graph::{FanOut, Graph, NodeId};
use crate::limits::{MAX_EXPANDED, MAX_EXPANDED_DEPTH};

enum Mark {
    Open,
    Done(FanOut),
}

/// Measures each subschema once. An explicit stack, because chains of references can be as long as the schema.
pub(super) fn measure(graph: &Graph) -> Result<Vec<FanOut>, SchemaError> {
    let mut marks: Vec<Option<Mark>> = graph.nodes.iter().map(|_| None).collect();
    for start in 0..graph.nodes.len() {
        let mut stack = vec![start];
        while let Some(&id) = stack.last() {
            match marks[id] {
                Some(Mark::Done(_)) => {
                    stack.pop();
                }
                Some(Mark::Open) => {
                    marks[id] = Some(Mark::Done(sum(graph, id, &marks)?));
                    stack.pop();
                }
                None => {
                    marks[id] = Some(Mark::Open);
                    for &next in &graph.nodes[id].in_place {
                        match marks[next] {
                            None => stack.push(next),
                            Some(Mark::Open) => return Err(endless(graph, next)),
                            Some(Mark::Done(_)) => {}
                        }
                    }
                }
            }
        }
    }
    let done = |mark| match mark {
        Some(Mark::Done(fan_out)) => fan_out,
        _ => FanOut::of_nothing(),
    };
    Ok(marks.into_iter().map(done).collect())
}

impl FanOut {
    fn of_nothing() -> Self {
        Self {
            applied: 0,
            visits: 0,
            patterns: 0,
            depth: 0,
        }
    }
}

fn sum(graph: &Graph, id: NodeId, marks: &[Option<Mark>]) -> Result<FanOut, SchemaError> {
    let node = &graph.nodes[id];
    let mut total = FanOut {
        applied: 1,
        visits: node.weight,
        patterns: node.patterns,
        depth: 0,
    };
    for &next in &node.in_place {
        let Some(Mark::Done(part)) = &marks[next] else {
            return Err(endless(graph, next));
        };
        total.visits = (total.visits).saturating_add(part.visits.saturating_mul(node.passes));
        total.patterns = (total.patterns).saturating_add(part.patterns.saturating_mul(node.passes));
        total.depth = total.depth.max(part.depth);
        total.applied = (total.applied).saturating_add(part.applied.saturating_mul(node.passes));
    }
    total.depth += 1;
    if total.applied > MAX_EXPANDED {
        let message = format!(
            "more than {MAX_EXPANDED} subschemas apply to one value here once every $ref is followed; use fewer \
             alternatives in allOf, anyOf and oneOf"
        );
        return Err(too_large(graph, id, message));
    }
    if total.depth > MAX_EXPANDED_DEPTH {
        let message = format!(
            "a chain of more than {MAX_EXPANDED_DEPTH} subschemas applies to one value here; refer to the last \
             one directly"
        );
        return Err(too_large(graph, id, message));
    }
    Ok(total)
}

fn too_large(graph: &Graph, id: NodeId, message: String) -> SchemaError {
    let path = graph.nodes[id].pointer.clone();
    SchemaError::new(SchemaErrorKind::TooLarge, path, message)
}

fn endless(graph: &Graph, id: NodeId) -> SchemaError {
    SchemaError::new(
        SchemaErrorKind::Reference,
        graph.nodes[id].pointer.clone(),
        "this schema refers to itself for the same value, so a check would never end; recursion must go through \
         properties or items",
    )
}
