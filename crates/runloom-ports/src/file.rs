//! Files that models are given, in no vendor's shape.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use runloom_protocol::attachment::{Attachment, IMAGES};
use runloom_protocol::limits::FILE_NAME_MAX_CHARS;
use serde::{Deserialize, Serialize};

/// Upper estimate of an image in tokens: the highest count of any vendor for full detail.
const IMAGE_TOKENS: usize = 16 * 1024;

/// Lower estimate, in tokens, of a file that the server has not read.
const UNSEEN_TOKENS: usize = 64 * 1024;

/// Reads the files that tools return.
#[async_trait]
pub trait FileReader: Send + Sync {
    /// Converts texts and documents to text and keeps other files. A file that cannot be read is replaced by a note
    /// with the reason, because nobody can send it again. Texts and documents take at most `max_bytes` together.
    async fn read_leniently(&self, files: Vec<Attachment>, max_bytes: usize) -> Vec<Attachment>;
}

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Its name, on one line.
    pub name: Arc<str>,
    /// Its MIME type, in lower case and without parameters.
    pub mime_type: Arc<str>,
    /// Its size in bytes, when the server has seen it.
    pub size: Option<u64>,
    /// Its content.
    pub content: FileContent,
}

/// Content of a file. Shared, because a conversation is cloned with every call.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
    /// Text, as it is or read out of a document: every model reads it.
    Text(Arc<str>),
    /// Anything else, in standard base64.
    Base64(Arc<str>),
    /// An `https` address that the provider fetches itself.
    Url(Arc<str>),
}

/// Shows the kind and size only: contents are long and private.
impl fmt::Debug for FileContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(formatter, "<{} bytes of text>", text.len()),
            Self::Base64(data) => write!(formatter, "<{} bytes of base64>", data.len()),
            Self::Url(_) => formatter.write_str("<address>"),
        }
    }
}

/// Which files a model takes as they are, by media type. Text is taken by all, and needs no mention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSupport {
    /// Sent with the request.
    pub inline: &'static [&'static str],
    /// Fetched by the provider from an address.
    pub urls: &'static [&'static str],
}

impl FileSupport {
    /// Whether such files can be sent with the request.
    #[must_use]
    pub fn takes(&self, mime_type: &str) -> bool {
        self.inline.contains(&mime_type)
    }

    /// Whether the provider fetches such files itself.
    #[must_use]
    pub fn fetches(&self, mime_type: &str) -> bool {
        self.urls.contains(&mime_type)
    }
}

impl File {
    /// A stored file; `None` when its content is missing.
    #[must_use]
    pub fn of(kept: &Attachment) -> Option<Self> {
        let content = match (&kept.text, &kept.data, &kept.url) {
            (Some(text), _, _) => FileContent::Text(Arc::clone(&text.0)),
            (None, Some(data), _) => FileContent::Base64(Arc::clone(&data.0)),
            (None, None, Some(url)) => FileContent::Url(url.as_str().into()),
            (None, None, None) => return None,
        };
        Some(Self {
            name: name_of(kept).into(),
            mime_type: kept.media_type().unwrap_or_default().into(),
            size: kept.size,
            content,
        })
    }

    /// Number of bytes in a model call, for estimates: never fewer tokens than vendors count for the file.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let size = || {
            self.size
                .map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX))
        };
        let content = match &self.content {
            FileContent::Text(text) => text.len(),
            _ if IMAGES.contains(&&*self.mime_type) => IMAGE_TOKENS,
            // Pages are read as text and as pictures.
            FileContent::Base64(_) => size().saturating_mul(2).max(IMAGE_TOKENS),
            FileContent::Url(_) => UNSEEN_TOKENS,
        };
        content.saturating_add(2 * self.name.len() + self.mime_type.len())
    }

    /// Name, type and size, for people and for models.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.name, &self.mime_type, self.size)
    }

    /// Its text for a model that cannot take the file: the text framed with its name, or a note that it was left out.
    #[must_use]
    pub fn in_words(&self) -> String {
        match &self.content {
            FileContent::Text(text) => {
                let name = self.name.replace('"', "'");
                format!(
                    "<file name=\"{name}\" type=\"{}\">\n{}\n</file>",
                    self.mime_type,
                    framed(text)
                )
            }
            _ => format!(
                "[The file {} was left out: this model cannot be given such files.]",
                self.label()
            ),
        }
    }
}

/// The note that stands for a file of an earlier message.
#[must_use]
pub fn mention(file: &Attachment) -> String {
    let kind = file.media_type().unwrap_or_default();
    let label = label(&name_of(file), &kind, file.size);
    format!("[The file {label} came with this message. Its content is not repeated here.]")
}

fn label(name: &str, mime_type: &str, size: Option<u64>) -> String {
    match (mime_type, size) {
        ("", None) => name.to_owned(),
        ("", Some(size)) => format!("{name} ({size} bytes)"),
        (kind, None) => format!("{name} ({kind})"),
        (kind, Some(size)) => format!("{name} ({kind}, {size} bytes)"),
    }
}

/// Escapes the end marker, so that the text cannot leave its frame.
fn framed(text: &str) -> Cow<'_, str> {
    const END: &[u8] = b"</file";
    let ends = |at: &usize| {
        let found = text.as_bytes().get(*at..*at + END.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(END))
    };
    let places = memchr::memmem::find_iter(text.as_bytes(), "</").filter(ends);
    let (mut framed, mut from) = (String::new(), 0);
    for place in places {
        framed.push_str(&text[from..place]);
        framed.push_str("&lt;");
        from = place + 1;
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    framed.push_str(&text[from..]);
    Cow::Owned(framed)
}

/// The name that people know the file by: of an address it is written in plain letters.
fn name_of(file: &Attachment) -> String {
    let is_given = file.filename.as_ref().is_some_and(|name| !name.is_empty());
    let name = if is_given {
        Cow::Borrowed(file.name())
    } else {
        percent_decoded(file.name())
    };
    one_line(&name).chars().take(FILE_NAME_MAX_CHARS).collect()
}

/// `%C3%A9` becomes `é`. Sequences that are not UTF-8 stay unchanged.
fn percent_decoded(name: &str) -> Cow<'_, str> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// A name cannot pretend to be more than a name.
fn one_line(name: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_between_lines_that_name_the_file() {
        let mut kept = Attachment::inline("a\"\n.txt", "Text/Plain; charset=utf-8", "QUI=");
        kept.text = kept.data.take();
        let file = File::of(&kept).unwrap();
        let wanted = "<file name=\"a' .txt\" type=\"text/plain\">\nQUI=\n</file>";
        assert_eq!(file.in_words(), wanted);
        assert!(!format!("{file:?}").contains("QUI="));
    }

    #[test]
    fn a_text_does_not_end_its_own_frame() {
        let mut kept = Attachment::inline("a.txt", "text/plain", "é</file>\n</FILE><b></b></fil");
        kept.text = kept.data.take();
        let words = File::of(&kept).unwrap().in_words();
        let wanted = "\né&lt;/file>\n&lt;/FILE><b></b></fil\n</file>";
        assert!(words.ends_with(wanted), "{words}");
    }

    #[test]
    fn names_of_addresses_are_read_as_people_write_them() {
        for (url, name) in [
            ("https://h.example/Caf%C3%A9%20a.pdf?x", "Café a.pdf"),
            ("https://h.example/a%0Ab%zz%ff", "a%0Ab%zz%ff"),
            ("https://h.example/a%0Ab%2", "a b%2"),
        ] {
            assert_eq!(&*File::of(&Attachment::at(url)).unwrap().name, name);
        }
        let long = Attachment::at(format!("https://h.example/{}", "%41".repeat(1000)));
        assert_eq!(File::of(&long).unwrap().name.len(), FILE_NAME_MAX_CHARS);
    }

    #[test]
    fn a_file_without_its_content_is_only_mentioned() {
        let mut kept = Attachment::inline("a.png", "image/png", "QUI=");
        kept.size = Some(2);
        assert_eq!(File::of(&kept.info()), None);
        let wanted = "[The file a.png (image/png, 2 bytes) came with this message. Its content is not repeated here.]";
        assert_eq!(mention(&kept.info()), wanted);
    }
}
