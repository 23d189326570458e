//! What a run does, turn by turn. The script is the run's prompt: the provider reads it there.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::random::Random;

/// The tools of clients; the second may run together with others.
pub(crate) const CLIENT_TOOLS: [&str; 2] = ["act", "look"];

/// Tools of clients that only read.
pub(crate) const READ_ONLY: [&str; 1] = ["look"];

/// The tools that the server executes, as the model sees them, by effect.
pub(crate) const SERVER_TOOLS: [&str; 3] = ["kit_read", "kit_again", "kit_once"];

/// A run's whole course.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Script {
    /// Unique among all runs, so that everything that follows from it can be told apart.
    pub(crate) id: String,
    pub(crate) turns: Vec<Turn>,
}

/// One answer of the model.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) words: u64,
    /// Milliseconds between two words.
    pub(crate) gap: u64,
    /// Names of the tools that it calls.
    pub(crate) calls: Vec<String>,
    /// The worker that asks for this turn dies of it.
    #[serde(default)]
    pub(crate) deadly: bool,
}

impl Turn {
    pub(crate) fn saying(words: u64, gap: u64) -> Self {
        Self {
            words,
            gap,
            ..Self::default()
        }
    }

    pub(crate) fn calling(calls: &[&str]) -> Self {
        Self {
            words: 2,
            gap: 1,
            calls: calls.iter().map(|name| (*name).to_owned()).collect(),
            ..Self::default()
        }
    }
}

impl Script {
    pub(crate) fn new(id: impl Into<String>, turns: Vec<Turn>) -> Self {
        Self {
            id: id.into(),
            turns,
        }
    }

    /// A few turns that call tools out of these, then an answer.
    pub(crate) fn calling(id: String, tools: &[&str], random: &mut Random) -> Self {
        let mut turns: Vec<Turn> = (0..=random.below(3))
            .map(|_| {
                let calls: Vec<&str> = (0..=random.below(2))
                    .map(|_| tools[usize::try_from(random.below(tools.len() as u64)).unwrap()])
                    .collect();
                Turn::calling(&calls)
            })
            .collect();
        turns.push(Turn::saying(5 + random.below(10), 2));
        Self::new(id, turns)
    }

    /// The body that starts it.
    pub(crate) fn body(&self, tools_url: &str) -> Value {
        let mut body = spec(tools_url);
        body["prompt"] = self.prompt().into();
        body
    }

    pub(crate) fn prompt(&self) -> String {
        serde_json::to_string(self).unwrap()
    }

    /// The id of a call, the same whenever the turn is called again.
    pub(crate) fn call_id(&self, turn: usize, index: usize) -> String {
        format!("call_{}_{turn}_{index}", self.id)
    }
}

/// An agent with every tool there is.
pub(crate) fn spec(tools_url: &str) -> Value {
    let local = |name: &str| {
        json!({"kind": "local", "name": name, "readOnly": READ_ONLY.contains(&name),
               "parameters": {"type": "object"}})
    };
    let mut tools: Vec<Value> = CLIENT_TOOLS.iter().map(|name| local(name)).collect();
    tools.push(json!({"kind": "mcp", "name": "kit", "url": tools_url}));
    json!({"systemPrompt": "You follow the script.", "modelId": "scripted/scripted", "tools": tools,
           "loopDetection": false})
}
