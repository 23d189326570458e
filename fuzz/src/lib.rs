//! Properties of every decoder, for any bytes: it gives events or an error and never panics, its events do not depend
//! on how the bytes are cut into chunks, and its output is at most a small multiple of its input.
//!
//! The fuzz target calls these functions, and so does a test of `runloom-models` on the corpus, with a stable compiler.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use runloom_models::test_support::{AWS_EVENT_STREAM, DecoderOptions, SSE, TestDecoder, apis};
use runloom_ports::model::{ModelError, ModelEvent};
use serde_json::json;

/// Bedrock with each line of the input in a valid frame, because random bytes never have the right checksums.
pub const BEDROCK_FRAMED: &str = "bedrock_framed";

/// The names of every target: the framings, every API of the provider table, and [`BEDROCK_FRAMED`]. Each has a folder
/// in the corpus.
#[must_use]
pub fn targets() -> Vec<&'static str> {
    let mut targets = vec![SSE, AWS_EVENT_STREAM, BEDROCK_FRAMED];
    targets.extend(apis());
    targets
}

/// Runs the target of this name.
///
/// # Panics
/// When there is none of this name, or a property does not hold.
pub fn run(name: &str, bytes: &[u8]) {
    match name {
        BEDROCK_FRAMED => check_decoder("bedrock", &framed(bytes)),
        name => check_decoder(name, bytes),
    }
}

/// Every variant of a request that decoders depend on.
const OPTIONS: [DecoderOptions; 4] = [
    options(false, false),
    options(false, true),
    options(true, false),
    options(true, true),
];

const fn options(show_thinking: bool, hidden_tool: bool) -> DecoderOptions {
    DecoderOptions {
        show_thinking,
        hidden_tool,
    }
}

fn check_decoder(name: &str, bytes: &[u8]) {
    for options in OPTIONS {
        let whole = read(name, options, bytes, usize::MAX);
        // A chunk size that differs between inputs and is the same each time for one.
        let size = 1 + bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 61;
        let cut = read(name, options, bytes, size);
        assert_eq!(whole, cut, "chunks of {size} bytes change the events");
    }
}

/// All events and the outcome, as text.
fn read(name: &str, options: DecoderOptions, bytes: &[u8], size: usize) -> String {
    let decoder = TestDecoder::new(name, options);
    let mut decoder = decoder.unwrap_or_else(|| panic!("there is no target {name}"));
    let mut out = Vec::new();
    let mut outcome = Ok(());
    for chunk in bytes.chunks(size) {
        outcome = decoder.chunk(chunk, &mut out);
        if outcome.is_err() || decoder.is_done() {
            break;
        }
    }
    if outcome.is_ok() && !decoder.is_done() {
        outcome = decoder.end(&mut out);
    }
    check(bytes.len(), &out, &outcome);
    format!("{out:?} {outcome:?}")
}

fn check(input: usize, out: &[ModelEvent], outcome: &Result<(), ModelError>) {
    let is_done = |event: &ModelEvent| matches!(event, ModelEvent::Done(_));
    let ends = out.iter().filter(|event| is_done(event)).count();
    assert_eq!(
        ends,
        usize::from(outcome.is_ok()),
        "one final event, or an error"
    );
    assert!(
        ends == 0 || out.last().is_some_and(is_done),
        "no event follows the final one"
    );
    let size: usize = out.iter().map(size_of_event).sum();
    // Only numbers (1e9) and bytes that are not UTF-8 grow.
    assert!(
        size <= 16 * input + 1024,
        "{input} bytes of input gave {size} bytes of events"
    );
    if let Err(error) = outcome {
        assert!(error.message.len() <= 8 * 1024, "the message is too long");
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

/// Each line in a frame of AWS's event stream, with valid lengths and checksums.
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
        // Fails only for messages of more than 16 MB, which the fuzzer does not make.
        let _ = write_message_to(&message, &mut bytes);
    }
    bytes
}
