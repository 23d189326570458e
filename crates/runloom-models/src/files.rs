//! Files of messages, for every adapter.

use std::fmt;

use runloom_ports::file::{File, FileContent};
use runloom_protocol::attachment::{AUDIO, IMAGES, PDF};
use serde::{Serialize, Serializer};

/// The kind of part that a file is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Image,
    Pdf,
    Audio,
    /// Text, or a file that no API accepts and that is described instead.
    Text,
}

impl Media {
    /// The kind of part for a file.
    pub(crate) fn of(file: &File) -> Self {
        let kind = &&*file.mime_type;
        match file.content {
            FileContent::Text(_) => Self::Text,
            _ if IMAGES.contains(kind) => Self::Image,
            _ if *kind == PDF => Self::Pdf,
            _ if AUDIO.contains(kind) => Self::Audio,
            _ => Self::Text,
        }
    }
}

/// A text that names a file, for parts that have no field for the name: users refer to files by name.
pub(crate) fn named(file: &File) -> String {
    format!("[file: {}]", file.name)
}

/// A file as URL: its own, or a `data:` URL with its content.
#[derive(Debug)]
pub(crate) struct Address<'a>(pub(crate) &'a File);

impl fmt::Display for Address<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.content {
            FileContent::Url(url) => formatter.write_str(url),
            FileContent::Base64(data) | FileContent::Text(data) => {
                write!(formatter, "data:{};base64,{data}", self.0.mime_type)
            }
        }
    }
}

impl Serialize for Address<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
