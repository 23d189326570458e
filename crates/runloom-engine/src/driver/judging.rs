//! Calls that the process itself judges.

use std::pin::pin;
use std::sync::Arc;

use runloom_protocol::policy::Decision;

use super::interrupt::TurnInterrupt;
use super::{Abandon, Driver, Left};
use crate::run::{Note, Spent};
use runloom_ports::call_policy::{CallDecision, JudgedCall, JudgedRun};

impl Driver {
    /// Asks the call policy about these calls and notes its decisions. A decision that is missing denies the call.
    pub(super) async fn judge_calls(&mut self, ids: Vec<String>) -> Result<Option<Left>, Abandon> {
        self.journal.flush().await?;
        let policy = self.parts.call_policy.as_ref().map(Arc::clone);
        let run = JudgedRun {
            agent: self.planned.origin.agent.clone(),
            depth: self.state.plan.place.depth,
        };
        let calls: Vec<JudgedCall> = ids.iter().filter_map(|id| self.judged_call(id)).collect();
        let mut judging = pin!(async {
            match policy {
                Some(policy) => policy.judge(&run, &calls).await,
                None => Vec::new(),
            }
        });
        let decisions = loop {
            tokio::select! {
                decisions = &mut judging => break decisions,
                interrupt = self.interrupt() => match interrupt? {
                    None => {}
                    Some(TurnInterrupt::Stop) => return self.release().await.map(Some),
                    Some(TurnInterrupt::OutOfTime) => {
                        return self.fail(self.out_of_time(), Spent::default()).await.map(Some);
                    }
                    Some(TurnInterrupt::Cancel(receipt)) => {
                        return self.cancel(*receipt, Spent::default()).await.map(Some);
                    }
                },
            }
        };
        let mut decisions = decisions.into_iter();
        for tool_use_id in ids {
            let CallDecision { decision, reason } = decisions.next().unwrap_or(CallDecision {
                decision: Decision::Deny,
                reason: Some("The policy did not decide about this call.".to_owned()),
            });
            self.note(Note::Judged {
                tool_use_id,
                decision,
                reason,
            });
        }
        Ok(None)
    }

    fn judged_call(&self, id: &str) -> Option<JudgedCall> {
        let call = self.state.calls.iter().find(|call| call.id == id)?;
        let tool = self.state.toolbox.get(&call.name)?;
        Some(JudgedCall {
            tool: call.name.clone(),
            target: tool.server().map(|tool| tool.target.clone()),
            input: call.input.clone(),
            effect: tool.call_effect(),
            annotations: tool.annotations(),
        })
    }
}
