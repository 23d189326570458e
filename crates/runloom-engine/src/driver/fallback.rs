//! The fallback: another model for the rest of the run.

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
    /// The model of the next call.
    pub(super) fn current_model(&self) -> Arc<dyn Model> {
        let fallback = self.planned.fallback.as_ref();
        let fallback = fallback.filter(|_| self.state.fell_back());
        Arc::clone(fallback.unwrap_or(&self.planned.model))
    }

    /// Continues with the fallback when there is one; otherwise ends the turn with `otherwise`.
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

    /// Records that the fallback takes over. The machine then plans the turn again, with its price and limits.
    async fn fall_back(&mut self, event: Event) -> Result<TurnEnd, Abandon> {
        if let Event::ModelFallback(moved) = &event {
            warn!(
                class = moved.error_class.as_str(),
                from = moved.primary_model_id,
                to = moved.fallback_model_id,
                "model fallback"
            );
        }
        METRICS.model_fallbacks.add(1);
        self.record(event)?;
        // Usage up to here is billed to the first model.
        self.journal.flush().await?;
        self.journal.billed_model = billed_model(&self.state);
        crash::point("after_fallback");
        Ok(TurnEnd::Complete)
    }
}

/// Catalog id of the fallback, once it has taken over.
pub(super) fn billed_model(state: &RunState) -> Option<Arc<str>> {
    let moved = state.fell_back();
    moved.then(|| Arc::from(state.current_model().model.id.as_str()))
}
