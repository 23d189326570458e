//! The tracing port: finished spans of a distributed trace.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::store::Millis;

/// Exports the spans of runs that have ended.
///
/// Contract: never waits and never fails. Spans that cannot be exported are dropped and counted by the
/// implementation.
pub trait Tracer: Send + Sync {
    /// Whether a run of this trace is traced; `parent` comes from its client.
    fn samples(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool;

    /// Takes the spans of one run.
    fn take(&self, spans: Vec<Span>);
}

/// Which trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// Which span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The span of a client's trace to which a run belongs: the header `traceparent` of W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// The client records its part of the trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Parses the header. A malformed header counts as absent, as the recommendation asks.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let version = hex::<1>(parts.next()?)?;
        let trace = hex::<16>(parts.next()?)?;
        let span = hex::<8>(parts.next()?)?;
        let [flags] = hex::<1>(parts.next()?)?;
        // Later versions may have more fields; version 0 has not, and 255 is invalid.
        let fits = match version {
            [0] => parts.next().is_none(),
            [u8::MAX] => false,
            _ => true,
        };
        let named = trace != [0; 16] && span != [0; 8];
        (fits && named).then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a traceparent"))
    }
}

/// `N` bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl From<Millis> for Nanos {
    fn from(at: Millis) -> Self {
        Self(
            u64::try_from(at.0)
                .unwrap_or_default()
                .saturating_mul(1_000_000),
        )
    }
}

/// One finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// A short name from a fixed set.
    pub name: String,
    /// Which trace.
    pub trace: TraceId,
    /// Itself.
    pub id: SpanId,
    /// Its parent span.
    pub parent: Option<SpanId>,
    /// Whether the parent belongs to another system.
    pub is_remote_child: bool,
    /// Whether it is a call to another party.
    pub is_call: bool,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Its attributes.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Events inside the span.
    pub marks: Vec<(Nanos, &'static str)>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A count.
    Count(u64),
    /// A measure.
    Measure(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_and_written_back() {
        let parent = TraceParent::parse(GOOD).unwrap();
        assert!(parent.sampled);
        assert_eq!(parent.to_string(), GOOD);
        let unsampled = GOOD.replace("-01", "-00");
        assert!(!TraceParent::parse(&unsampled).unwrap().sampled);
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = GOOD.replacen("00", "01", 1);
        assert!(TraceParent::parse(&later).is_some());
        assert!(TraceParent::parse(&format!("{later}-more")).is_some());
    }

    #[test]
    fn what_does_not_follow_the_grammar_is_as_good_as_absent() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c8031-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }
}
