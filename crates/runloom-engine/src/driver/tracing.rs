//! The trace of the run under way, when somebody wants it.

use std::sync::Arc;

use crate::planner::Planned;
use crate::run::Record;
use crate::trace::{SpanBuilder, TracedRun, trace_of};
use runloom_ports::store::Claim;
use runloom_ports::trace::{Nanos, TraceParent, Tracer};

/// A trail, and who takes it in the end. Boxed: most runs have none.
pub(crate) struct Tracing(Box<(SpanBuilder, Arc<dyn Tracer>)>);

impl Tracing {
    /// The trace of a claimed run; nothing when it is not among those that are traced.
    pub(crate) fn of(tracer: &Arc<dyn Tracer>, claim: &Claim, planned: &Planned) -> Option<Self> {
        let origin = &planned.origin;
        let trace = origin
            .trace
            .map_or_else(|| trace_of(&claim.id), |parent| parent.trace);
        if !tracer.samples(trace, origin.trace.as_ref()) {
            return None;
        }
        let trail = SpanBuilder::new(TracedRun {
            run: claim.id.clone(),
            workspace: planned.workspace.to_string(),
            parent: origin.trace,
            session: origin.session.as_ref().map(ToString::to_string),
            agent: origin.agent.as_ref().map(ToString::to_string),
            name: origin.name.clone(),
            model: planned.plan.primary.model.clone(),
            wants_json: planned.plan.output.is_some(),
            accepted: claim.created_at.into(),
        });
        Some(Self(Box::new((trail, Arc::clone(tracer)))))
    }

    /// Sees a record of the log.
    pub(crate) fn see(&mut self, record: &Record, at: Nanos) {
        self.0.0.see(record, at);
    }

    /// The span of a call, for whoever is called.
    pub(crate) fn call(&self, tool_use_id: &str) -> TraceParent {
        self.0.0.call(tool_use_id)
    }

    /// Tells of the run, which has ended.
    pub(crate) fn tell(self) {
        let (trail, tracer) = *self.0;
        tracer.take(trail.spans());
    }
}
