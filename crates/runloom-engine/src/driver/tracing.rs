//! The trace of the current run.

use std::sync::Arc;

use crate::planner::Planned;
use crate::run::Record;
use crate::trace::{SpanBuilder, TracedRun, trace_of};
use runloom_ports::store::Claim;
use runloom_ports::trace::{Nanos, TraceParent, Tracer};

/// The spans of a run so far, and the tracer that exports them. Boxed, because most runs have none.
pub(crate) struct Tracing(Box<Trace>);

struct Trace {
    spans: SpanBuilder,
    tracer: Arc<dyn Tracer>,
}

impl Tracing {
    /// The trace of a claimed run; `None` when the tracer does not sample it.
    pub(crate) fn of(tracer: &Arc<dyn Tracer>, claim: &Claim, planned: &Planned) -> Option<Self> {
        let origin = &planned.origin;
        let trace = origin
            .trace
            .map_or_else(|| trace_of(&claim.id), |parent| parent.trace);
        if !tracer.samples(trace, origin.trace.as_ref()) {
            return None;
        }
        let spans = SpanBuilder::new(TracedRun {
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
        let tracer = Arc::clone(tracer);
        Some(Self(Box::new(Trace { spans, tracer })))
    }

    /// Adds a record of the log.
    pub(crate) fn see(&mut self, record: &Record, at: Nanos) {
        self.0.spans.see(record, at);
    }

    /// The span of a tool call, for the tool.
    pub(crate) fn call(&self, tool_use_id: &str) -> TraceParent {
        self.0.spans.call(tool_use_id)
    }

    /// Exports the spans of the run, which has ended.
    pub(crate) fn export(self) {
        let Trace { spans, tracer } = *self.0;
        tracer.take(spans.spans());
    }
}
