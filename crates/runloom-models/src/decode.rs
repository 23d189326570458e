//! From bytes to events: a framing cuts the answer into frames, a provider's decoder reads the frames.

use runloom_ports::model::{ModelError, ModelEvent};
use runloom_protocol::outcome::ErrorClass;

/// Upper bound of one answer, in bytes: far above what any model writes, and an end to what a broken server may send.
/// It also bounds everything that a decoder collects.
const MAX_RESPONSE_BYTES: usize = 32 * 1024 * 1024;

/// Reads the frames of one answer. Pure: no I/O, no clock.
///
/// It gives exactly one [`ModelEvent::Done`], or an error. What comes after that is not read.
pub(crate) trait StreamDecoder: Send {
    /// One frame. Frames and fields that are not known are ignored; a frame that must be read and is not JSON is an error.
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError>;

    /// The connection closed; an error unless the provider's final frame was seen.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;
}

/// What receives the frames of a [`Framing`]: the frame's name, if it has one, and its data.
pub(crate) type OnFrame<'a> = dyn FnMut(Option<&str>, &[u8]) -> Result<(), ModelError> + 'a;

/// Cuts a byte stream into frames, whatever its chunks are.
pub(crate) trait Framing: Send {
    /// The next bytes. Frames that they complete are handed on before it returns.
    fn feed(&mut self, bytes: &[u8], on_frame: &mut OnFrame<'_>) -> Result<(), ModelError>;

    /// The connection closed: hands on what is complete although nothing terminated it.
    fn finish(&mut self, on_frame: &mut OnFrame<'_>) -> Result<(), ModelError>;
}

/// A framing and a decoder at work on one answer.
pub(crate) struct Decoding {
    framing: Box<dyn Framing>,
    decoder: Box<dyn StreamDecoder>,
    received: usize,
    done: bool,
}

impl Decoding {
    /// Before the first byte.
    pub(crate) fn new(framing: Box<dyn Framing>, decoder: Box<dyn StreamDecoder>) -> Self {
        Self {
            framing,
            decoder,
            received: 0,
            done: false,
        }
    }

    /// True after [`ModelEvent::Done`]: nothing more needs to be read.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// The next bytes. After an error, `out` still has what came before it.
    pub(crate) fn chunk(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_RESPONSE_BYTES {
            return Err(ModelError::new(
                ErrorClass::Server,
                format!("the provider's answer is larger than {MAX_RESPONSE_BYTES} bytes"),
            ));
        }
        let (decoder, done) = (&mut self.decoder, &mut self.done);
        let outcome = self.framing.feed(bytes, &mut |name, data| {
            read_frame(decoder.as_mut(), done, name, data, out)
        });
        // What follows the end does not matter, also when it cannot be framed.
        if self.done { Ok(()) } else { outcome }
    }

    /// The connection closed.
    pub(crate) fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let (decoder, done) = (&mut self.decoder, &mut self.done);
        self.framing
            .finish(&mut |name, data| read_frame(decoder.as_mut(), done, name, data, out))?;
        if self.done {
            return Ok(());
        }
        self.decoder.end(out)?;
        self.done = has_done(out, 0);
        if self.done {
            Ok(())
        } else {
            Err(crate::error::cut())
        }
    }
}

fn read_frame(
    decoder: &mut dyn StreamDecoder,
    done: &mut bool,
    name: Option<&str>,
    data: &[u8],
    out: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    if *done {
        return Ok(());
    }
    let before = out.len();
    decoder.event(name, data, out)?;
    *done = has_done(out, before);
    Ok(())
}

fn has_done(out: &[ModelEvent], from: usize) -> bool {
    out[from..]
        .iter()
        .any(|event| matches!(event, ModelEvent::Done(_)))
}

#[cfg(test)]
#[path = "decode_properties.rs"]
pub(crate) mod properties;
