//! Checks the declared type of files, because providers refuse a whole conversation for one invalid image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_protocol::attachment::{Attachment, IMAGES, PDF, sniffed};

/// Characters of base64 that are looked at: a little more than the first 1024 bytes, within which PDF files begin.
const LOOKED_AT: usize = 1368;

/// The real type of an image or PDF file, if it differs from the declared one.
///
/// # Errors
/// The file is empty, or of no supported type.
pub(super) fn other(file: &Attachment) -> Result<Option<&'static str>, String> {
    let Some(data) = &file.data else {
        return Ok(None);
    };
    if data.0.is_empty() {
        return Err("is empty".to_owned());
    }
    let said = file.media_type().unwrap_or_default();
    if said != PDF && !IMAGES.contains(&&*said) {
        return Ok(None);
    }
    let beginning = data.0.as_bytes();
    let beginning = beginning.get(..LOOKED_AT).unwrap_or(beginning);
    let bytes = STANDARD
        .decode(beginning)
        .map_err(|error| format!("is not base64: {error}"))?;
    match sniffed(&bytes) {
        None => Err(format!(
            "is not {said}: its content begins as none of that type does"
        )),
        Some(kind) => Ok(Some(kind).filter(|kind| *kind != said)),
    }
}
