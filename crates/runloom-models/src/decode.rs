//! From bytes to events: a framing splits the response body into frames, an API's decoder turns frames into events.

use runloom_ports::model::{ModelError, ModelEvent};
use runloom_protocol::outcome::ErrorClass;

/// Largest response body, in bytes: far above what any model writes. It also bounds everything that a decoder collects.
const MAX_RESPONSE_BYTES: usize = 32 * 1024 * 1024;

/// Decodes the frames of one response. Pure: no I/O, no clock.
///
/// It emits exactly one [`ModelEvent::Done`], or fails. Frames after that are ignored.
pub(crate) trait StreamDecoder: Send {
    /// Decodes one frame. Unknown frames and fields are ignored.
    ///
    /// # Errors
    /// When the frame reports a failure, or is one that must be read and is not JSON.
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError>;

    /// The body ended.
    ///
    /// # Errors
    /// When the provider's final frame was not seen.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;
}

/// Callback for the frames of a [`Framing`]: the frame's name, if it has one, and its data.
pub(crate) type OnFrame<'a> = dyn FnMut(Option<&str>, &[u8]) -> Result<(), ModelError> + 'a;

/// Splits a byte stream into frames, however it is cut into chunks.
pub(crate) trait Framing: Send {
    /// Reads the next bytes and passes on every frame that they complete.
    fn feed(&mut self, bytes: &[u8], on_frame: &mut OnFrame<'_>) -> Result<(), ModelError>;

    /// The body ended: passes on a last frame that lacks only its terminator.
    fn finish(&mut self, on_frame: &mut OnFrame<'_>) -> Result<(), ModelError>;
}

/// A framing and a decoder for one response.
pub(crate) struct Decoding {
    framing: Box<dyn Framing>,
    decoder: Box<dyn StreamDecoder>,
    received: usize,
    done: bool,
}

impl Decoding {
    /// A decoding that has read nothing yet.
    pub(crate) fn new(framing: Box<dyn Framing>, decoder: Box<dyn StreamDecoder>) -> Self {
        Self {
            framing,
            decoder,
            received: 0,
            done: false,
        }
    }

    /// Whether [`ModelEvent::Done`] was emitted: nothing more needs to be read.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Decodes the next bytes. After an error, `out` still has the events before it.
    pub(crate) fn chunk(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_RESPONSE_BYTES {
            return Err(ModelError::new(
                ErrorClass::Server,
                format!("the provider's response is larger than {MAX_RESPONSE_BYTES} bytes"),
            ));
        }
        let (decoder, done) = (&mut self.decoder, &mut self.done);
        let outcome = self.framing.feed(bytes, &mut |name, data| {
            read_frame(decoder.as_mut(), done, name, data, out)
        });
        // Bytes after the final frame are ignored, even if they cannot be framed.
        if self.done { Ok(()) } else { outcome }
    }

    /// The body ended.
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
            Err(crate::error::incomplete_response())
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
mod properties;
