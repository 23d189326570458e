//! What one instance costs: the visits of a check, counted before it starts.
//!
//! Recursive alternatives can meet the same value exponentially often. The count is exact without being as slow,
//! because each pair of subschema and container is counted once.

use std::collections::HashMap;

use serde_json::Value;

use crate::graph::{Graph, NodeId};
use crate::limits::{CHECK_DEPTH, VISITS, VISITS_PER_VALUE};
use crate::measure;

/// The visits a check will make at most, or why it must not start.
pub(super) fn visits(graph: &Graph, value: &Value) -> Result<u64, &'static str> {
    let limit = VISITS.saturating_add(measure::count(value).saturating_mul(VISITS_PER_VALUE));
    let mut counter = Counter {
        graph,
        limit,
        pairs: 0,
        known: HashMap::new(),
    };
    Ok(counter.pair(0, value, 0)?.visits)
}

const TOO_DEEP: &str = "the value is nested too deeply for this schema; make it flatter";
const TOO_MUCH: &str = "checking the value against this schema would take too long; make the value smaller and flatter";

#[derive(Clone, Copy)]
struct Cost {
    visits: u64,
    depth: u32,
}

struct Counter<'a> {
    graph: &'a Graph,
    limit: u64,
    pairs: u64,
    /// Containers are told apart by their address, which is stable while they are borrowed.
    known: HashMap<(NodeId, *const Value), Cost>,
}

impl Counter<'_> {
    fn pair(&mut self, id: NodeId, value: &Value, depth: u32) -> Result<Cost, &'static str> {
        let cost = match value {
            Value::Array(items) if !items.is_empty() => self.container(id, value, depth)?,
            Value::Object(fields) if !fields.is_empty() => self.container(id, value, depth)?,
            _ => self.scalar(id, value),
        };
        if cost.visits > self.limit {
            return Err(TOO_MUCH);
        }
        if depth + cost.depth > CHECK_DEPTH {
            return Err(TOO_DEEP);
        }
        Ok(cost)
    }

    fn scalar(&self, id: NodeId, value: &Value) -> Cost {
        let fan_out = self.graph.fan_out[id];
        let length = value.as_str().map_or(0, str::len);
        Cost {
            visits: (fan_out.visits).saturating_add(matching(fan_out.patterns, length)),
            depth: fan_out.depth,
        }
    }

    fn container(&mut self, id: NodeId, value: &Value, depth: u32) -> Result<Cost, &'static str> {
        let key = (id, std::ptr::from_ref(value));
        if let Some(cost) = self.known.get(&key) {
            return Ok(*cost);
        }
        self.pairs += 1;
        if depth > CHECK_DEPTH {
            return Err(TOO_DEEP);
        }
        if self.pairs > self.limit {
            return Err(TOO_MUCH);
        }
        let graph = self.graph;
        let node = &graph.nodes[id];
        let mut total = Cost {
            visits: node.weight,
            depth: 0,
        };
        for &next in &node.in_place {
            self.add(&mut total, next, value, depth)?;
        }
        total.visits = total.visits.saturating_mul(node.passes);
        match value {
            Value::Object(fields) => {
                for (name, child) in fields {
                    let own = node.named.get(name).copied().or(node.unnamed);
                    for next in own.into_iter().chain(node.properties.iter().copied()) {
                        self.add(&mut total, next, child, depth)?;
                    }
                    let mut runs = matching(node.patterns, name.len());
                    for &next in &node.names {
                        let fan_out = graph.fan_out[next];
                        runs = runs
                            .saturating_add(fan_out.visits)
                            .saturating_add(matching(fan_out.patterns, name.len()));
                    }
                    total.visits = total.visits.saturating_add(runs);
                }
            }
            Value::Array(items) => {
                for (index, child) in items.iter().enumerate() {
                    let own = node.prefix.get(index);
                    for &next in own.into_iter().chain(&node.items) {
                        self.add(&mut total, next, child, depth)?;
                    }
                }
            }
            _ => {}
        }
        total.depth += 1;
        self.known.insert(key, total);
        Ok(total)
    }

    fn add(
        &mut self,
        total: &mut Cost,
        id: NodeId,
        value: &Value,
        depth: u32,
    ) -> Result<(), &'static str> {
        let cost = self.pair(id, value, depth + 1)?;
        total.visits = total.visits.saturating_add(cost.visits);
        total.depth = total.depth.max(cost.depth);
        Ok(())
    }
}

/// Visits charged for matching this many patterns against a text of this length.
fn matching(patterns: u64, length: usize) -> u64 {
    patterns.saturating_mul(1 + length as u64 / 32)
}
