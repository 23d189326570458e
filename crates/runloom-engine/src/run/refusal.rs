//! Calls that are refused before they are executed.

use runloom_protocol::event::{Event, ToolBudgetExceeded};
use serde_json::json;

use super::delegation;
use super::state::{Call, RunState};
use super::step::synthetic;

/// Calls that are not executed: over their budget, to an unknown tool, with arguments that break the tool's schema,
/// or to a delegate that may start no run.
pub(super) fn refuse(state: &RunState, calls: &[&Call]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut started = 0;
    for call in calls {
        let earlier = state.guards.calls.get(&call.name).copied().unwrap_or(0);
        let call_index = earlier + place_among_equals(state, call);
        if let Some(&max_calls) = state.plan.tool_budgets.get(&call.name)
            && call_index > max_calls
        {
            let text = format!(
                "Tool budget exceeded: {} may be called {max_calls} times in this run, and this was call {call_index}. It was not \
                 executed. Pivot to another approach or finalize your answer.",
                call.name
            );
            events.push(synthetic(call, &text));
            let tool = call.name.clone();
            events.push(Event::ToolBudgetExceeded(ToolBudgetExceeded {
                tool,
                max_calls,
                call_index,
            }));
            continue;
        }
        match state.toolbox.get(&call.name) {
            None => events.push(synthetic(call, &unknown_tool(state, &call.name))),
            Some(tool) => {
                let refusal = tool.check(&call.input).err();
                let refusal = refusal.or_else(|| delegation::refusal(state, tool, &mut started));
                events.extend(refusal.map(|text| synthetic(call, &text)));
            }
        }
    }
    events
}

/// 1-based position of a call among the turn's calls of the same tool.
fn place_among_equals(state: &RunState, call: &Call) -> u32 {
    let same = state.calls.iter().filter(|other| other.name == call.name);
    same.zip(1..)
        .find(|(other, _)| other.id == call.id)
        .map_or(1, |(_, place)| place)
}

fn unknown_tool(state: &RunState, name: &str) -> String {
    let known: Vec<&str> = state.toolbox.names().collect();
    json!({"error": "unknown_tool", "message": format!("There is no tool named {name}."), "tools": known}).to_string()
}
