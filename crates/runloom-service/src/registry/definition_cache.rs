//! Tools that were read before: a run asks for each of its tools when it is accepted, when it begins and at every call.
//!
//! Every change that this process makes passes [`DefinitionCache::forget`], and so does every announcement of another
//! one. A change that is not heard of, because another process is silent or because a client hung up in the middle of
//! its own, is noticed after [`BELIEVED`] at the latest.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runloom_ports::tools::ToolDefinition;

/// How long a definition is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// Definitions that are kept; at one more all are forgotten.
const KEPT: usize = 1024;

/// Largest body that is kept, in bytes.
const LARGEST: usize = 64 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DefinitionCache {
    tools: Mutex<Tools>,
}

#[derive(Debug, Default)]
struct Tools {
    /// By workspace and name.
    kept: HashMap<String, HashMap<String, (ToolDefinition, Instant)>>,
    count: usize,
    /// Rises with every change: what was read before one is not kept after it.
    generation: u64,
}

impl DefinitionCache {
    /// The definition, when it is known.
    pub(super) fn get(&self, workspace: &str, name: &str) -> Option<ToolDefinition> {
        let tools = self.tools();
        let (definition, read) = tools.kept.get(workspace)?.get(name)?;
        (read.elapsed() < BELIEVED).then(|| definition.clone())
    }

    /// Asked before the store is, for [`Self::keep`].
    pub(super) fn generation(&self) -> u64 {
        self.tools().generation
    }

    /// Keeps what was read since `generation`, unless something has changed meanwhile.
    pub(super) fn keep(
        &self,
        generation: u64,
        (workspace, name): (&str, &str),
        definition: &ToolDefinition,
        bytes: usize,
    ) {
        let mut tools = self.tools();
        if tools.generation != generation || bytes > LARGEST {
            return;
        }
        if tools.count >= KEPT {
            tools.forget();
        }
        let entry = (definition.clone(), Instant::now());
        let known = tools.kept.entry(workspace.to_owned()).or_default();
        let added = known.insert(name.to_owned(), entry).is_none();
        tools.count += usize::from(added);
    }

    /// Something has changed.
    pub(super) fn forget(&self) {
        let mut tools = self.tools();
        tools.generation += 1;
        tools.forget();
    }

    fn tools(&self) -> MutexGuard<'_, Tools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tools {
    fn forget(&mut self) {
        self.kept.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> ToolDefinition {
        let body = json!({"name": name, "type": "http", "url": "http://127.0.0.1/"});
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn what_was_read_is_known_under_its_name_until_something_changes() {
        let known = DefinitionCache::default();
        known.keep(known.generation(), ("acme", "look"), &tool("look"), 10);
        assert!(known.tools().kept["acme"].contains_key("look"));
        assert_eq!(known.get("other", "look"), None);
        assert_eq!(known.get("acme", "other"), None);
        known.forget();
        assert_eq!(known.get("acme", "look"), None);
    }

    #[test]
    fn what_was_read_long_ago_is_read_again() {
        let known = DefinitionCache::default();
        known.keep(known.generation(), ("acme", "look"), &tool("look"), 10);
        let mut tools = known.tools();
        let (_, read) = tools.kept.get_mut("acme").unwrap().get_mut("look").unwrap();
        *read = Instant::now().checked_sub(BELIEVED).unwrap();
        drop(tools);
        assert_eq!(known.get("acme", "look"), None);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let known = DefinitionCache::default();
        let before = known.generation();
        known.forget();
        known.keep(before, ("acme", "look"), &tool("look"), 10);
        assert_eq!(known.get("acme", "look"), None);
    }

    #[test]
    fn neither_large_nor_many_definitions_fill_the_memory() {
        let known = DefinitionCache::default();
        let generation = known.generation();
        known.keep(generation, ("acme", "large"), &tool("large"), LARGEST + 1);
        assert_eq!(known.get("acme", "large"), None);
        for number in 0..KEPT * 3 {
            known.keep(generation, ("acme", &number.to_string()), &tool("t"), 10);
            assert!(known.tools().count <= KEPT);
        }
    }
}
