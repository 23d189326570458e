//! Another model takes over for the rest of the run.

use std::sync::Arc;

use runloom_protocol::event::Event;
use tracing::warn;

use super::turn::TurnEnd;
use super::{Abandon, Driver};
use crate::metrics::METRICS;
use crate::run::RunState;
use runloom_ports::crash;
use runloom_ports::model::Model;

impl Driver {
    /// Who is called in the next turn.
    pub(super) fn speaker(&self) -> Arc<dyn Model> {
        let fallback = self.fallback.as_ref().filter(|_| self.state.fell_back());
        Arc::clone(fallback.unwrap_or(&self.model))
    }

    /// Goes on with the fallback when there is one, else ends the turn so.
    pub(super) async fn fall_back_or(
        &mut self,
        spare: Option<Event>,
        otherwise: impl FnOnce(&mut Self) -> TurnEnd,
    ) -> Result<TurnEnd, Abandon> {
        match spare {
            Some(event) => self.fall_back(event).await,
            None => Ok(otherwise(self)),
        }
    }

    /// Records that the fallback takes over; the machine then plans the turn anew, at its price and within its bounds.
    async fn fall_back(&mut self, event: Event) -> Result<TurnEnd, Abandon> {
        if let Event::ModelFallback(moved) = &event {
            warn!(
                class = moved.error_class.as_str(),
                from = moved.primary_model_id,
                to = moved.fallback_model_id,
                "the model is out of service; its fallback takes over"
            );
        }
        METRICS.model_fallbacks.add(1);
        self.record(event)?;
        // What was used so far is the first model's: it goes to its account before the other one has used anything.
        self.journal.flush().await?;
        self.journal.speaker = accounted(&self.state);
        crash::point("after_fallback");
        Ok(TurnEnd::Complete)
    }
}

/// Catalog id of the fallback, once it speaks.
pub(super) fn accounted(state: &RunState) -> Option<Arc<str>> {
    let moved = state.fell_back();
    moved.then(|| Arc::from(state.speaker().model.id.as_str()))
}
