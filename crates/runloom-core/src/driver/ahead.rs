//! The first call of a new run, sent while the run is being written down.
//!
//! The provider's answer takes longer than the store's. Nothing of it is recorded or shown before the run is durable; when the
//! run cannot be created the call is dropped, which closes its connection.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use runloom_protocol::event::{Event, Started};

use super::turn::request_of;
use crate::ports::model::{Model, ModelError, ModelStream};
use crate::run::{self, CallPlan, Plan, Record, RunState, Step};

type Opened = Result<ModelStream, ModelError>;
type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;

/// A model call under way for a run that is not durable yet.
pub(crate) struct Ahead {
    plan: CallPlan,
    opening: Opening,
    opened: Option<Opened>,
}

impl Ahead {
    /// The call that a run with this plan begins with. `None` when it begins with something else, or when money must be set
    /// aside first, which only a durable run can do.
    pub(crate) fn of(plan: &Arc<Plan>, model: &Arc<dyn Model>) -> Option<Self> {
        let mut state = RunState::new(Arc::clone(plan));
        state.apply(Record::Event(Event::Started(Started {})));
        let Step::CallModel(call) = run::next(&state) else {
            return None;
        };
        if call.bid.is_some() {
            return None;
        }
        let (model, request) = (Arc::clone(model), request_of(&state, call));
        Some(Self {
            plan: call,
            opening: Box::pin(async move { model.call(request).await }),
            opened: None,
        })
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
