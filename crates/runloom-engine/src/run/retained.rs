//! Results that later runs of the session are told: those of tools with `retain`, in the text that the model read.

use runloom_protocol::limits::{
    RETAINED_CALLS_MAX, RETAINED_INPUT_MAX_BYTES, RETAINED_RESULT_MAX_BYTES,
};
use runloom_protocol::spec::RetainedCall;

use super::state::{Call, CallState, RunState};

impl RunState {
    /// Retains the result of a call whose tool wants that. A failure is no result, and one that is too large is left
    /// out whole: half of it would be believed to be all.
    pub(super) fn retain(&mut self, call: &Call) {
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
        if self.retained.len() == RETAINED_CALLS_MAX {
            self.retained.remove(0);
        }
        self.retained.push(RetainedCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            output: content.clone(),
        });
    }
}
