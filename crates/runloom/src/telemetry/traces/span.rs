//! Converts our spans to those of the OpenTelemetry library.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use runloom_ports::trace::{Attribute, Nanos, Span};

/// A span for export.
pub(super) fn data(span: Span) -> SpanData {
    let context = SpanContext::new(
        TraceId::from_bytes(span.trace.0),
        SpanId::from_bytes(span.id.0),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    );
    let parent = span
        .parent
        .map_or(SpanId::INVALID, |id| SpanId::from_bytes(id.0));
    let mut events = SpanEvents::default();
    let marks = span.marks.into_iter();
    events
        .events
        .extend(marks.map(|(at, what)| Event::new(what, time(at), Vec::new(), 0)));
    let attributes = span.attributes.into_iter();
    SpanData {
        span_context: context,
        parent_span_id: parent,
        parent_span_is_remote: span.is_remote_child,
        span_kind: if span.is_call {
            SpanKind::Client
        } else {
            SpanKind::Internal
        },
        name: span.name.into(),
        start_time: time(span.start),
        end_time: time(span.end),
        attributes: attributes
            .map(|(key, given)| KeyValue::new(key, value(given)))
            .collect(),
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("runloom")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn time(at: Nanos) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_nanos(at.0))
        .unwrap_or(UNIX_EPOCH)
}

fn value(attribute: Attribute) -> Value {
    match attribute {
        Attribute::Text(text) => Value::String(text.into()),
        Attribute::Texts(texts) => {
            let texts = texts.into_iter().map(StringValue::from);
            Value::Array(Array::String(texts.collect()))
        }
        Attribute::Count(count) => Value::I64(i64::try_from(count).unwrap_or(i64::MAX)),
        Attribute::Measure(measure) => Value::F64(measure),
    }
}
