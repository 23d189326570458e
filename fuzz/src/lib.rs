//! What holds for any bytes that a provider may send: an error or events, never a panic, the same however the bytes are
//! cut into chunks, and never more than a small multiple of what came in.
//!
//! The fuzz targets call these functions, and so does a test of `runloom-models` on the corpus, with a stable compiler.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use runloom_models::probe::{Asked, Probe, Wire};
use runloom_ports::model::{ModelError, ModelEvent};
use serde_json::json;

/// A target: its name, which is that of its file and of its corpus, and what it does with some bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("sse", |bytes| holds(Wire::Sse, bytes)),
    ("event_stream", |bytes| holds(Wire::EventStream, bytes)),
    ("anthropic", |bytes| holds(Wire::Anthropic, bytes)),
    ("bedrock", |bytes| holds(Wire::Bedrock, bytes)),
    ("bedrock_framed", |bytes| {
        holds(Wire::Bedrock, &framed(bytes))
    }),
    ("gemini", |bytes| holds(Wire::Gemini, bytes)),
    ("openai_chat", |bytes| holds(Wire::OpenAiChat, bytes)),
    ("openai_responses", |bytes| {
        holds(Wire::OpenAiResponses, bytes);
    }),
];

/// Runs the target of this name.
///
/// # Panics
/// When there is none, or when something does not hold.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("no target is called {name}"));
    target(bytes);
}

/// Every way in which a request can have been asked.
const ASKED: [Asked; 4] = [
    asked(false, false),
    asked(false, true),
    asked(true, false),
    asked(true, true),
];

const fn asked(thinking: bool, hidden_tool: bool) -> Asked {
    Asked {
        thinking,
        hidden_tool,
    }
}

fn holds(wire: Wire, bytes: &[u8]) {
    for asked in ASKED {
        let whole = read(wire, asked, bytes, usize::MAX);
        // A size that differs from input to input, and is the same each time for one.
        let size = 1 + bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 61;
        let cut = read(wire, asked, bytes, size);
        assert_eq!(
            whole, cut,
            "chunks of {size} bytes are read otherwise than the whole"
        );
    }
}

/// Everything that came out, as text.
fn read(wire: Wire, asked: Asked, bytes: &[u8], size: usize) -> String {
    let mut probe = Probe::new(wire, asked);
    let mut out = Vec::new();
    let mut outcome = Ok(());
    for chunk in bytes.chunks(size) {
        outcome = probe.chunk(chunk, &mut out);
        if outcome.is_err() || probe.is_done() {
            break;
        }
    }
    if outcome.is_ok() && !probe.is_done() {
        outcome = probe.end(&mut out);
    }
    check(bytes.len(), &out, &outcome);
    format!("{out:?} {outcome:?}")
}

fn check(came: usize, out: &[ModelEvent], outcome: &Result<(), ModelError>) {
    let is_done = |event: &ModelEvent| matches!(event, ModelEvent::Done(_));
    let ends = out.iter().filter(|event| is_done(event)).count();
    assert_eq!(ends, usize::from(outcome.is_ok()), "one end, or an error");
    assert!(
        ends == 0 || out.last().is_some_and(is_done),
        "nothing follows the end"
    );
    let size: usize = out.iter().map(size_of_event).sum();
    // Numbers are written out (1e9), bytes that are no text become three; nothing else grows.
    assert!(
        size <= 16 * came + 1024,
        "{came} bytes came in and {size} went out"
    );
    if let Err(error) = outcome {
        assert!(error.message.len() <= 8 * 1024, "a message is for people");
    }
}

fn size_of_event(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => text.len(),
        ModelEvent::Call(call) => call.id.len() + call.name.len() + call.input.to_string().len(),
        ModelEvent::Usage(_) => 0,
        ModelEvent::Done(done) => {
            let state = done
                .state
                .as_ref()
                .map_or(0, |state| state.items.get().len());
            done.finish_reason.len() + state
        }
    }
}

/// Puts each line into a frame of AWS's event stream: with right lengths and checksums what is inside is reached, which
/// random bytes never do.
#[must_use]
pub fn framed(lines: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let header = |name: &'static str, value: &'static str| {
            Header::new(name, HeaderValue::String(value.into()))
        };
        let payload = json!({ "bytes": STANDARD.encode(line) }).to_string();
        let message = Message::new(payload)
            .add_header(header(":message-type", "event"))
            .add_header(header(":event-type", "chunk"));
        // Only a message of more than 16 MB cannot be written; the fuzzer makes none.
        let _ = write_message_to(&message, &mut bytes);
    }
    bytes
}
