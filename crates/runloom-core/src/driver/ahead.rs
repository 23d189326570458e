//! The first call of a new run, sent while the run is being written down.
//!
//! The provider's answer takes longer than the store's. Nothing of it is recorded or shown before the run is durable; when the
//! run cannot be created the call is dropped, which closes its connection.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::FutureExt;
use runloom_protocol::event::{Event, Started};
use runloom_protocol::tools::ToolRef;

use super::turn::request_of;
use crate::planner::Planned;
use crate::ports::model::{ModelError, ModelStream};
use crate::ports::tools::{ServerTool, ToolContext, ToolHost};
use crate::run::{self, CallPlan, Note, Record, RunState, Step};

type Opened = Result<ModelStream, ModelError>;
type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;

/// A model call under way for a run that is not durable yet.
pub(crate) struct Ahead {
    plan: CallPlan,
    /// The server's tools that the call offers, until the run has taken note of them.
    tools: Option<Vec<ServerTool>>,
    opening: Opening,
    opened: Option<Opened>,
}

impl Ahead {
    /// The call that a run with this plan begins with. `None` when it begins with something else: when tools must be asked for
    /// over a network, or money must be set aside, which only a durable run can do.
    pub(crate) fn of(
        planned: &Planned,
        host: &dyn ToolHost,
        context: &ToolContext,
    ) -> Option<Self> {
        let mut state = RunState::new(Arc::clone(&planned.plan));
        state.apply(Record::Event(Event::Started(Started {})));
        let mut tools = None;
        if let Step::ResolveTools = run::next(&state) {
            let found = at_hand(host, context)?;
            state.apply(Record::Note(Note::Toolset {
                tools: found.clone(),
            }));
            tools = Some(found);
        }
        let Step::CallModel(call) = run::next(&state) else {
            return None;
        };
        if call.bid.is_some() {
            return None;
        }
        let (model, request) = (Arc::clone(&planned.model), request_of(&mut state, call));
        Some(Self {
            plan: call,
            tools,
            opening: Box::pin(async move { model.call(request).await }),
            opened: None,
        })
    }

    /// The tools that the call offers. Given once.
    pub(super) fn take_tools(&mut self) -> Option<Vec<ServerTool>> {
        self.tools.take()
    }

    /// Lets the call go on beside other work, and returns with that.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                opened = &mut self.opening, if self.opened.is_none() => self.opened = Some(opened),
            }
        }
    }

    /// The call, when it is the one that is planned.
    pub(super) fn take(self, plan: CallPlan) -> Option<Opening> {
        if self.plan != plan {
            return None;
        }
        Some(match self.opened {
            Some(opened) => Box::pin(std::future::ready(opened)),
            None => self.opening,
        })
    }
}

/// The server's tools of a run, when they are known without waiting: those of the workspace usually are, because they were looked
/// up when the run was checked. Other kinds would begin to connect.
fn at_hand(host: &dyn ToolHost, context: &ToolContext) -> Option<Vec<ServerTool>> {
    let of_workspace =
        |tool: &ToolRef| matches!(tool, ToolRef::Mantyx(_)) || !tool.is_server_resolved();
    if !context.refs.iter().all(of_workspace) {
        return None;
    }
    host.resolve(context, &context.refs).now_or_never()
}
