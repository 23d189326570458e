//! Framing of server-sent events.

use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use runloom_protocol::sse::{SseError, SseParser};

use crate::decode::{Framing, OnFrame};

/// Largest event, in bytes. The largest in practice hold images or encrypted reasoning.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// The framing of a stream of server-sent events.
#[derive(Debug)]
pub(crate) struct Sse(SseParser);

impl Default for Sse {
    fn default() -> Self {
        Self(SseParser::new(MAX_EVENT_BYTES))
    }
}

impl Framing for Sse {
    fn feed(&mut self, bytes: &[u8], on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
        self.0
            .push(bytes, |event| on_frame(event.name, event.data))
            .map_err(model_error)
    }

    fn finish(&mut self, on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
        self.0
            .finish(|event| on_frame(event.name, event.data))
            .map_err(model_error)
    }
}

fn model_error(error: SseError<ModelError>) -> ModelError {
    match error {
        SseError::TooLarge(max) => ModelError::new(
            ErrorClass::Server,
            format!("the provider sent an event larger than {max} bytes"),
        ),
        SseError::Receiver(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_an_event_that_never_ends() {
        let block = vec![b'x'; 1024 * 1024];
        let mut sse = Sse::default();
        let mut ignore = |_: Option<&str>, _: &[u8]| Ok(());
        sse.feed(b"data: ", &mut ignore).unwrap();
        let error = (0..9).find_map(|_| sse.feed(&block, &mut ignore).err());
        assert_eq!(error.unwrap().class, ErrorClass::Server);
    }

    #[test]
    fn finishes_an_event_without_its_blank_line() {
        let mut seen = 0;
        let mut count = |_: Option<&str>, data: &[u8]| {
            assert_eq!(data, b"[DONE]");
            seen += 1;
            Ok(())
        };
        let mut sse = Sse::default();
        sse.feed(b"data: [DONE]\n", &mut count).unwrap();
        sse.finish(&mut count).unwrap();
        assert_eq!(seen, 1);
    }
}
