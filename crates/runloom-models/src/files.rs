//! What every API needs to know of files.

use std::fmt;

use runloom_ports::file::{File, FileContent};
use runloom_protocol::attachment::{AUDIO, IMAGES, PDF};
use serde::{Serialize, Serializer};

/// What kind of part a file becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Image,
    Pdf,
    Audio,
    /// Text, or something that no API takes as it is.
    Words,
}

impl Media {
    /// The kind of a file, as far as it is sent as it is.
    pub(crate) fn of(file: &File) -> Self {
        let kind = &&*file.mime_type;
        match file.content {
            FileContent::Text(_) => Self::Words,
            _ if IMAGES.contains(kind) => Self::Image,
            _ if *kind == PDF => Self::Pdf,
            _ if AUDIO.contains(kind) => Self::Audio,
            _ => Self::Words,
        }
    }
}

/// The name of a file, for parts that carry none: people call files by their names.
pub(crate) fn named(file: &File) -> String {
    format!("[file: {}]", file.name)
}

/// A file where APIs want an address: its own, or itself in one.
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
