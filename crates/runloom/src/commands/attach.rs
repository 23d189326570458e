//! `--attach`: local files or addresses that are sent with a prompt.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_client::protocol::attachment::{Attachment, media_type_of};
use runloom_client::protocol::limits::{ATTACHMENTS_MAX, ATTACHMENTS_MAX_BYTES};

use crate::exit::{Exit, Failure};

/// The attachments of a command line. Files over the server's limits are refused before sending.
pub(super) fn files(names: &[String]) -> Result<Vec<Attachment>, Failure> {
    if names.len() > ATTACHMENTS_MAX {
        let message = format!("at most {ATTACHMENTS_MAX} files can be attached");
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut left = ATTACHMENTS_MAX_BYTES;
    names.iter().map(|name| file(name, &mut left)).collect()
}

fn file(name: &str, left: &mut usize) -> Result<Attachment, Failure> {
    if name.starts_with("https://") {
        return Ok(Attachment::at(name));
    }
    let refused = |why: String| Failure::new(Exit::Usage, format!("cannot attach {name}: {why}"));
    if name.starts_with("http://") {
        return Err(refused("only https addresses can be attached".to_owned()));
    }
    let path = Path::new(name);
    let shown = path.file_name().unwrap_or(path.as_os_str());
    let shown = shown.to_string_lossy().into_owned();
    let opened = File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut bytes = Vec::new();
    opened
        .take(*left as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(error.to_string()))?;
    if bytes.len() > *left {
        let mb = ATTACHMENTS_MAX_BYTES / (1024 * 1024);
        return Err(refused(format!("files may have {mb} MB together")));
    }
    *left -= bytes.len();
    // Text is sent as text, whatever the file's extension.
    let kind = media_type_of(&shown)
        .or_else(|| std::str::from_utf8(&bytes).is_ok().then_some("text/plain"));
    let Some(kind) = kind else {
        let known = "images (jpg, png, webp, gif), audio (m4a, mp3, wav, webm), pdf, docx and text";
        return Err(refused(format!(
            "its name tells no type that can be attached; there are {known}"
        )));
    };
    Ok(Attachment::inline(shown, kind, STANDARD.encode(&bytes)))
}
