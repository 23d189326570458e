//! Results for later runs of the session: those of tools with `retain` and of the project tool, in the text that the
//! model read.

use runloom_protocol::limits::{
    PROJECT_PAIRS_MAX, RETAINED_CALLS_MAX, RETAINED_INPUT_MAX_BYTES, RETAINED_RESULT_MAX_BYTES,
};
use runloom_protocol::spec::RetainedCall;
use runloom_protocol::tools::PROJECT_TOOL;

use super::state::{Call, CallState, RunState};

impl RunState {
    /// Retains the result of a call whose tool has `retain`. Failures are not retained. A result that is too large is
    /// left out whole, because the model would take half of it for all.
    pub(super) fn retain(&mut self, call: &Call) {
        if self.is_project_call(call) {
            return self.retain_project_call(call);
        }
        let CallState::Done {
            content,
            is_error: false,
        } = &call.state
        else {
            return;
        };
        let tool = self.toolbox.get(&call.name);
        if !tool.is_some_and(|tool| tool.retain) || content.len() > RETAINED_RESULT_MAX_BYTES {
            return;
        }
        if call.input.to_string().len() > RETAINED_INPUT_MAX_BYTES {
            return;
        }
        let is_other = |kept: &RetainedCall| kept.name != PROJECT_TOOL;
        if self.retained.iter().filter(|kept| is_other(kept)).count() >= RETAINED_CALLS_MAX
            && let Some(oldest) = self.retained.iter().position(is_other)
        {
            self.retained.remove(oldest);
        }
        self.retained.push(RetainedCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            output: content.clone(),
        });
    }

    /// Whether the server ran it as an action of the project.
    fn is_project_call(&self, call: &Call) -> bool {
        let server = self.toolbox.get(&call.name).and_then(|tool| tool.server());
        call.name == PROJECT_TOOL && server.is_some_and(|tool| tool.action_effects.is_some())
    }

    /// Retains every call of the project tool whole, failures too: the model must know what was done.
    /// `retained_history` bounds their sum.
    fn retain_project_call(&mut self, call: &Call) {
        let CallState::Done { content, .. } = &call.state else {
            return;
        };
        let is_pair = |kept: &RetainedCall| kept.name == PROJECT_TOOL;
        if self.retained.iter().filter(|kept| is_pair(kept)).count() >= PROJECT_PAIRS_MAX
            && let Some(oldest) = self.retained.iter().position(is_pair)
        {
            self.retained.remove(oldest);
        }
        self.retained.push(RetainedCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            output: content.clone(),
        });
    }
}
