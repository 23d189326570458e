//! Files that clients and tools send, made ready for models: texts and Word's documents become text, which every model reads; the rest
//! stays as it is.

mod docx;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_protocol::attachment::{Attachment, DOCX, FileData, is_text_type};

/// Whether a file of this type becomes text before a model is given it.
pub(crate) fn is_read(media_type: &str) -> bool {
    media_type == DOCX || is_text_type(media_type)
}

/// Reads what can be read of these files, off the async threads: the answer tells the first that cannot be, by its place, and why.
pub(crate) async fn read(
    files: Vec<Attachment>,
) -> std::result::Result<Vec<Attachment>, (usize, String)> {
    let nothing_to_read = |file: &Attachment| {
        let kind = file.media_type();
        file.data.is_none() || !kind.is_some_and(|kind| is_read(&kind))
    };
    if files.iter().all(nothing_to_read) {
        return Ok(files);
    }
    let reading = tokio::task::spawn_blocking(move || {
        let read = files.into_iter().enumerate();
        read.map(|(place, file)| read_one(file).map_err(|why| (place, why)))
            .collect()
    });
    reading
        .await
        .unwrap_or_else(|_| Err((0, "cannot be read".to_owned())))
}

/// As [`read`], for files that nobody can be asked to send again: what cannot be read stays as it came, and the model is told its name.
pub(crate) async fn read_leniently(files: Vec<Attachment>) -> Vec<Attachment> {
    let mut kept = Vec::with_capacity(files.len());
    for file in files {
        let read = read(vec![file.clone()]).await;
        kept.extend(read.unwrap_or_else(|_| vec![file]));
    }
    kept
}

fn read_one(mut file: Attachment) -> std::result::Result<Attachment, String> {
    let kind = file.media_type().unwrap_or_default();
    let Some(data) = file.data.as_ref().filter(|_| is_read(&kind)) else {
        return Ok(file);
    };
    let bytes = STANDARD
        .decode(data.0.as_bytes())
        .map_err(|error| format!("is not base64: {error}"))?;
    let text = if kind == DOCX {
        docx::text(&bytes)?
    } else {
        plain(bytes)?
    };
    file.text = Some(FileData(text.into()));
    file.data = None;
    Ok(file)
}

fn plain(bytes: Vec<u8>) -> std::result::Result<String, String> {
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("is not UTF-8 text: {}", error.utf8_error()))?;
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    if text.contains('\0') {
        return Err("is not text: it has null characters".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mime_type: &str, bytes: &[u8]) -> Attachment {
        Attachment::inline("a", mime_type, STANDARD.encode(bytes))
    }

    #[tokio::test]
    async fn texts_are_read_and_pictures_left_as_they_are() {
        let files = vec![
            file("image/png", b"\x89PNG"),
            file("text/markdown", "\u{feff}# é".as_bytes()),
            file("application/json; charset=utf-8", b"{}"),
        ];
        let read = read(files.clone()).await.unwrap();
        assert_eq!(read[0], files[0]);
        let texts: Vec<&str> = read[1..]
            .iter()
            .map(|file| {
                assert_eq!(file.data, None);
                &*file.text.as_ref().unwrap().0
            })
            .collect();
        assert_eq!(texts, ["# é", "{}"]);
    }

    #[tokio::test]
    async fn what_is_no_text_is_said_to_be_none_at_its_place() {
        for (mime_type, bytes, why) in [
            ("text/plain", &b"caf\xe9"[..], "UTF-8"),
            ("text/plain", b"a\0b", "null"),
            (DOCX, b"PK", "Word"),
        ] {
            let files = vec![file("text/plain", b"fine"), file(mime_type, bytes)];
            let (place, reason) = read(files).await.unwrap_err();
            assert_eq!(place, 1);
            assert!(reason.contains(why), "{reason}");
        }
    }
}
