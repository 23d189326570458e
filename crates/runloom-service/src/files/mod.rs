//! Prepares files of clients and tools for models: texts and Word documents become text, which every model accepts;
//! other files stay unchanged.

mod kind;
mod read_budget;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_ports::file::FileReader;
use runloom_protocol::attachment::{Attachment, DOCX, FileData, is_text_type};
use tokio::sync::Semaphore;

use read_budget::ReadBudget;

/// Requests of the whole process whose documents are read concurrently, because unpacked documents are many times
/// larger. Reading is bounded in time, so that waiting requests do not wait long.
static READING: Semaphore = Semaphore::const_new(4);

/// Whether a file of this type becomes text before a model is given it.
pub(crate) fn is_read(media_type: &str) -> bool {
    media_type == DOCX || is_text_type(media_type)
}

/// Reads these files, at most `most` bytes together, also after unpacking.
///
/// # Errors
/// The index of the first file that cannot be read or is not of its declared type, and the reason.
pub(crate) async fn read(
    files: Vec<Attachment>,
    most: usize,
) -> std::result::Result<Vec<Attachment>, (usize, String)> {
    for (place, file) in files.iter().enumerate() {
        let other = kind::other(file).map_err(|why| (place, why))?;
        if let Some(other) = other {
            let said = file.media_type().unwrap_or_default();
            return Err((place, format!("is {other}, not {said}")));
        }
    }
    let read = off_the_threads(files, move |files| {
        let mut room = ReadBudget::beside(&files, most);
        let read = files.into_iter().enumerate();
        read.map(|(place, file)| read_one(&file, &mut room).map_err(|why| (place, why)))
            .collect()
    });
    match read.await {
        Reading::Nothing(files) => Ok(files),
        Reading::Done(read) => read,
        Reading::Lost => Err((0, "cannot be read".to_owned())),
    }
}

/// Like [`read`], for files that nobody can send again: an unreadable file is replaced by a note for the model with
/// the reason, and a wrong type is corrected.
pub(crate) async fn read_leniently(files: Vec<Attachment>, most: usize) -> Vec<Attachment> {
    let known = files.into_iter().map(|mut file| match kind::other(&file) {
        Ok(None) => file,
        Ok(Some(other)) => {
            file.mime_type = Some(other.to_owned());
            file
        }
        Err(why) => left_out(&file, &why),
    });
    let known: Vec<Attachment> = known.collect();
    let names: Vec<Attachment> = known.iter().map(Attachment::info).collect();
    let read = off_the_threads(known, move |files| {
        let mut room = ReadBudget::beside(&files, most);
        let read = files.iter();
        read.map(|file| read_one(file, &mut room).unwrap_or_else(|why| left_out(file, &why)))
            .collect()
    });
    match read.await {
        Reading::Nothing(files) | Reading::Done(files) => files,
        Reading::Lost => names,
    }
}

/// Reads files on this machine's blocking threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reader;

#[async_trait]
impl FileReader for Reader {
    async fn read_leniently(&self, files: Vec<Attachment>, max_bytes: usize) -> Vec<Attachment> {
        read_leniently(files, max_bytes).await
    }
}

enum Reading<T> {
    /// No file needs reading.
    Nothing(Vec<Attachment>),
    Done(T),
    /// A defect.
    Lost,
}

/// Reads on a blocking thread, a few requests at once.
async fn off_the_threads<T: Send + 'static>(
    files: Vec<Attachment>,
    read: impl FnOnce(Vec<Attachment>) -> T + Send + 'static,
) -> Reading<T> {
    let is_one_of = |wanted: fn(&str) -> bool| {
        files.iter().any(|file| {
            let kind = file.media_type();
            file.data.is_some() && kind.is_some_and(|kind| wanted(&kind))
        })
    };
    if !is_one_of(is_read) {
        return Reading::Nothing(files);
    }
    let turn = if is_one_of(|kind| kind == DOCX) {
        READING.acquire().await.ok()
    } else {
        None
    };
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        read(files)
    });
    reading.await.map_or(Reading::Lost, Reading::Done)
}

/// A file without its content, and why.
fn left_out(file: &Attachment, why: &str) -> Attachment {
    let note = format!("[left out: the file {why}]");
    Attachment {
        text: Some(FileData(note.into())),
        ..file.info()
    }
}

fn read_one(file: &Attachment, room: &mut ReadBudget) -> std::result::Result<Attachment, String> {
    let kind = file.media_type().unwrap_or_default();
    let Some(data) = file.data.as_ref().filter(|_| is_read(&kind)) else {
        return Ok(file.clone());
    };
    let bytes = STANDARD
        .decode(data.0.as_bytes())
        .map_err(|error| format!("is not base64: {error}"))?;
    let text = if kind == DOCX {
        room.read_docx(&bytes)?
    } else {
        plain(bytes)?
    };
    room.take_text(text.len())?;
    Ok(Attachment {
        text: Some(FileData(text.into())),
        ..file.info()
    })
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

    const MOST: usize = 1000;

    /// A Word document with these elements in it.
    fn docx_of(xml: &str) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file("word/document.xml", options).unwrap();
        std::io::Write::write_all(&mut writer, xml.as_bytes()).unwrap();
        writer.finish().unwrap().into_inner()
    }

    fn file(mime_type: &str, bytes: &[u8]) -> Attachment {
        Attachment {
            size: Some(bytes.len() as u64),
            ..Attachment::inline("a", mime_type, STANDARD.encode(bytes))
        }
    }

    #[tokio::test]
    async fn texts_are_read_and_pictures_left_as_they_are() {
        let files = vec![
            file("image/png", b"\x89PNG\r\n\x1a\n"),
            file("text/markdown", "\u{feff}# é".as_bytes()),
            file("application/json; charset=utf-8", b"{}"),
        ];
        let read = read(files.clone(), MOST).await.unwrap();
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
            let (place, reason) = read(files, MOST).await.unwrap_err();
            assert_eq!(place, 1);
            assert!(reason.contains(why), "{reason}");
        }
    }

    #[tokio::test]
    async fn what_is_not_what_it_says_is_refused_of_clients_and_put_right_of_tools() {
        let jpeg = file("image/png", b"\xff\xd8\xff\xe0");
        let (_, why) = read(vec![jpeg.clone()], MOST).await.unwrap_err();
        assert_eq!(why, "is image/jpeg, not image/png");
        let nothing = file("application/pdf", b"hello");
        let (_, why) = read(vec![nothing.clone()], MOST).await.unwrap_err();
        assert!(why.contains("application/pdf"), "{why}");
        let files = vec![
            jpeg,
            nothing,
            file("image/png", b""),
            file("text/plain", b"caf\xe9"),
        ];
        let read = read_leniently(files, MOST).await;
        assert_eq!(read[0].mime_type.as_deref(), Some("image/jpeg"));
        assert!(read[0].data.is_some());
        let whys: Vec<&str> = read[1..]
            .iter()
            .map(|file| {
                assert_eq!(file.data, None);
                &*file.text.as_ref().unwrap().0
            })
            .collect();
        for (why, wanted) in whys.iter().zip(["application/pdf", "empty", "UTF-8"]) {
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[tokio::test]
    async fn all_files_share_one_bound_also_when_they_are_read() {
        let words = format!("<w:t>{}</w:t>", "a".repeat(400));
        let document = || file(DOCX, &docx_of(&words));
        let picture = || file("image/png", &[b"\x89PNG\r\n\x1a\n", &[0; 192][..]].concat());
        let fits = vec![document(), document(), picture()];
        assert!(read(fits.clone(), MOST).await.is_ok());
        let more = [fits, vec![document()]].concat();
        let (place, why) = read(more.clone(), MOST).await.unwrap_err();
        assert_eq!(place, 3);
        assert!(why.contains("1000 bytes"), "{why}");
        let read = read_leniently(more, MOST).await;
        let last = &*read[3].text.as_ref().unwrap().0;
        assert!(last.contains("1000 bytes") && last.len() < 200, "{last}");
        assert_eq!(read[1].text.as_ref().unwrap().0.len(), 400);
    }
}
