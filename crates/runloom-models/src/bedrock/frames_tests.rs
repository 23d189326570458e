//! AWS event-stream frames: complete, split, damaged, too large.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn message(headers: &[(&'static str, &'static str)], payload: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut message = Message::new(payload.into());
    for (name, value) in headers {
        message = message.add_header(Header::new(*name, HeaderValue::String((*value).into())));
    }
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).unwrap();
    bytes
}

fn chunk(event: &str) -> Vec<u8> {
    let payload = json!({"bytes": STANDARD.encode(event), "p": "abcdef"}).to_string();
    message(
        &[
            (":message-type", "event"),
            (":event-type", "chunk"),
            (":content-type", "application/json"),
        ],
        payload,
    )
}

fn exception(kind: &'static str, payload: &str) -> Vec<u8> {
    message(
        &[(":message-type", "exception"), (":exception-type", kind)],
        payload,
    )
}

fn read_all(pieces: &[&[u8]]) -> (Vec<String>, Option<ModelError>) {
    let mut frames = Frames::default();
    let mut events = Vec::new();
    for piece in pieces {
        let result = frames.feed(piece, &mut |_, data| {
            events.push(String::from_utf8_lossy(data).into_owned());
            Ok(())
        });
        if let Err(error) = result {
            return (events, Some(error));
        }
    }
    (events, None)
}

#[test]
fn decodes_chunks() {
    let bytes = [chunk(r#"{"type":"ping"}"#), chunk("two")].concat();
    let (events, error) = read_all(&[&bytes]);
    assert_eq!(events, [r#"{"type":"ping"}"#, "two"]);
    assert!(error.is_none());
}

#[test]
fn ignores_unknown_events() {
    let other = message(
        &[(":message-type", "event"), (":event-type", "novelty")],
        "whatever",
    );
    let (events, error) = read_all(&[&[other, chunk("x")].concat()]);
    assert_eq!(events, ["x"]);
    assert!(error.is_none());
}

#[test]
fn classifies_exceptions() {
    for (kind, payload, class, status) in [
        (
            "throttlingException",
            r#"{"message":"slow down"}"#,
            ErrorClass::RateLimit,
            None,
        ),
        (
            "serviceUnavailableException",
            r#"{"message":"m"}"#,
            ErrorClass::Overloaded,
            None,
        ),
        (
            "internalServerException",
            r#"{"message":"m"}"#,
            ErrorClass::Server,
            None,
        ),
        (
            "modelStreamErrorException",
            r#"{"message":"m"}"#,
            ErrorClass::Server,
            None,
        ),
        (
            "modelStreamErrorException",
            r#"{"message":"m","originalStatusCode":429,"originalMessage":"o"}"#,
            ErrorClass::RateLimit,
            Some(429),
        ),
        (
            "modelTimeoutException",
            r#"{"message":"m"}"#,
            ErrorClass::Timeout,
            None,
        ),
        (
            "validationException",
            r#"{"message":"m"}"#,
            ErrorClass::InvalidRequest,
            None,
        ),
        (
            "validationException",
            r#"{"message":"input is too long for the model"}"#,
            ErrorClass::ContextWindow,
            None,
        ),
        ("noveltyException", "not json", ErrorClass::Server, None),
    ] {
        let (events, error) = read_all(&[&[chunk("before"), exception(kind, payload)].concat()]);
        assert_eq!(events, ["before"]);
        let error = error.unwrap();
        assert_eq!(
            (error.class, error.api_status, error.api_code.as_deref()),
            (class, status, Some(kind)),
            "{payload}"
        );
    }
}

#[test]
fn classifies_transport_errors() {
    let headers = [
        (":message-type", "error"),
        (":error-code", "InternalError"),
        (":error-message", "broken pipe"),
    ];
    let error = read_all(&[&message(&headers, "")]).1.unwrap();
    assert_eq!(
        (error.class, error.message.as_str()),
        (ErrorClass::Server, "broken pipe")
    );
}

#[test]
fn rejects_a_damaged_message() {
    let mut bytes = chunk("x");
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    assert!(
        read_all(&[&bytes])
            .1
            .unwrap()
            .message
            .contains("event stream is broken")
    );
}

#[test]
fn rejects_an_impossible_length_early() {
    for length in [0_u32, 15, u32::MAX] {
        let bytes = [&length.to_be_bytes()[..], &[0; 8]].concat();
        assert!(read_all(&[&bytes]).1.is_some(), "{length}");
    }
}

#[test]
fn a_chunk_that_is_not_base64_is_refused() {
    let bytes = message(
        &[(":message-type", "event"), (":event-type", "chunk")],
        r#"{"bytes":"%%"}"#,
    );
    assert!(read_all(&[&bytes]).1.is_some());
}

fn split(bytes: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for size in sizes {
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces.push(rest.to_vec());
    pieces
}

fn shown(pieces: &[&[u8]]) -> String {
    format!("{:?}", read_all(pieces))
}

fn shown_in_pieces(bytes: &[u8], sizes: &[usize]) -> String {
    let pieces = split(bytes, sizes);
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    shown(&pieces)
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_chunks(
        events in prop::collection::vec("[a-z]{0,40}", 0..5),
        sizes in prop::collection::vec(0_usize..60, 0..20),
    ) {
        let bytes: Vec<u8> = events.iter().flat_map(|event| chunk(event)).collect();
        let pieces = split(&bytes, &sizes);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let (read, error) = read_all(&pieces);
        prop_assert_eq!(read, events);
        prop_assert!(error.is_none());
    }

    #[test]
    fn damaged_frames_do_not_depend_on_chunks(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        sizes in prop::collection::vec(0_usize..60, 0..20),
    ) {
        let mut bytes = [chunk("one"), exception("throttlingException", "{}"), chunk("two")].concat();
        for (at, mask) in damage {
            *at.get_mut(&mut bytes) ^= mask;
        }
        prop_assert_eq!(shown(&[&bytes]), shown_in_pieces(&bytes, &sizes));
    }

    #[test]
    fn arbitrary_bytes_do_not_depend_on_chunks(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        plausible in any::<bool>(),
        sizes in prop::collection::vec(0_usize..60, 0..5),
    ) {
        if plausible && bytes.len() >= 16 {
            let length = u32::try_from(bytes.len()).unwrap();
            bytes[..4].copy_from_slice(&length.to_be_bytes());
        }
        prop_assert_eq!(shown(&[&bytes]), shown_in_pieces(&bytes, &sizes));
    }

    #[test]
    fn detects_every_flipped_bit(at in 0_usize..1_000, bit in 0_u8..8) {
        let mut bytes = [chunk("one"), chunk("two")].concat();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let (events, error) = read_all(&[&bytes]);
        // A length that became larger waits for bytes that never come.
        prop_assert!(error.is_some() || events.len() < 2);
    }
}
