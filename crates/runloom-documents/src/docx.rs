//! DOCX: a ZIP archive whose main part is WordprocessingML.

use std::io::{Cursor, Read};

use quick_xml::events::Event;
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;

use crate::{DocumentError, DocumentLimits, DocumentText};

/// The main part, when the archive does not name another one.
const MAIN_PART: &str = "word/document.xml";

/// The part that names the main part, and the most bytes of it.
const RELATIONS: &str = "_rels/.rels";
const MAX_RELATIONS_BYTES: usize = 64 * 1024;

/// Entries of an archive.
const MAX_ENTRIES: usize = 4096;

/// The text of a Word document.
///
/// # Errors
/// When it is not a Word document, is damaged, or exceeds the limits.
pub fn docx_text(archive: &[u8], limits: DocumentLimits) -> Result<DocumentText, DocumentError> {
    let mut archive =
        ZipArchive::new(Cursor::new(archive)).map_err(|_| DocumentError::NotADocument)?;
    if archive.len() > MAX_ENTRIES {
        return Err(DocumentError::NotADocument);
    }
    let xml = main_part(&mut archive, limits.unpacked_bytes)?;
    let unpacked_bytes = xml.len();
    let xml = String::from_utf8(xml).map_err(|_| DocumentError::NotUtf8)?;
    let text = text_of(&xml, limits.text_bytes).ok_or(DocumentError::TextTooLong)?;
    Ok(DocumentText {
        text,
        unpacked_bytes,
    })
}

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

fn main_part(archive: &mut Archive<'_>, limit: usize) -> Result<Vec<u8>, DocumentError> {
    let named = named_part(archive).filter(|name| archive.index_for_name(name).is_some());
    let name = named.unwrap_or_else(|| MAIN_PART.to_owned());
    unpacked(archive, &name, limit)
}

/// The name of the main part, as the archive's relations give it.
fn named_part(archive: &mut Archive<'_>) -> Option<String> {
    let xml = String::from_utf8(unpacked(archive, RELATIONS, MAX_RELATIONS_BYTES).ok()?).ok()?;
    let mut reader = Reader::from_str(&xml);
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) | Event::Empty(tag)
                if tag.local_name().as_ref() == "Relationship" =>
            {
                let attribute = |name: &str| {
                    let found = tag.try_get_attribute(name).ok()??;
                    let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
                    Some(value.into_owned())
                };
                if attribute("Type").is_some_and(|kind| kind.ends_with("/officeDocument")) {
                    return Some(attribute("Target")?.trim_start_matches('/').to_owned());
                }
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// The content of an entry, at most `limit` bytes of it.
fn unpacked(archive: &mut Archive<'_>, name: &str, limit: usize) -> Result<Vec<u8>, DocumentError> {
    let index = archive
        .index_for_name(name)
        .ok_or(DocumentError::NotADocument)?;
    let entry = archive
        .by_index(index)
        .map_err(|error| DocumentError::Damaged(error.to_string()))?;
    let mut content = Vec::new();
    // One byte more than allowed shows that there is more. The size in the directory may be false.
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    entry
        .take(bound)
        .read_to_end(&mut content)
        .map_err(|error| DocumentError::Damaged(error.to_string()))?;
    if content.len() > limit {
        return Err(DocumentError::TooLarge { limit });
    }
    Ok(content)
}

/// The text of the main part, or `None` when it exceeds `limit` bytes. Malformed XML ends the text.
fn text_of(xml: &str, limit: usize) -> Option<String> {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    let mut text = Collector::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => text.open(tag.name().as_ref()),
            Ok(Event::Empty(tag)) => text.empty(tag.name().as_ref()),
            Ok(Event::End(tag)) => text.close(tag.name().as_ref()),
            Ok(Event::Text(part)) => text.push(&part),
            Ok(Event::CData(part)) => text.push(&part),
            Ok(Event::GeneralRef(entity)) => match character(&entity) {
                Some(character) => text.push(character.encode_utf8(&mut [0; 4])),
                None => text.push(&format!("&{};", &*entity)),
            },
            Ok(Event::Eof) | Err(_) => break,
            Ok(_) => {}
        }
        if text.text.len() > limit {
            return None;
        }
    }
    Some(text.text.trim().to_owned())
}

/// Collects text and line ends from the elements of a document.
#[derive(Default)]
struct Collector {
    text: String,
    in_text: bool,
    /// Inside a list of tab stops, whose elements have the name of a tab.
    in_tab_stops: bool,
    /// Depth of alternative content for old programs, which repeats what was read.
    fallbacks: usize,
}

impl Collector {
    fn open(&mut self, name: &str) {
        match name {
            "mc:Fallback" => self.fallbacks += 1,
            _ if self.fallbacks > 0 => {}
            "w:t" => self.in_text = true,
            "w:tabs" => self.in_tab_stops = true,
            _ => self.empty(name),
        }
    }

    fn empty(&mut self, name: &str) {
        match name {
            _ if self.fallbacks > 0 => {}
            "w:tab" if !self.in_tab_stops => self.text.push('\t'),
            "w:br" | "w:cr" => self.text.push('\n'),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "mc:Fallback" => self.fallbacks = self.fallbacks.saturating_sub(1),
            _ if self.fallbacks > 0 => {}
            "w:t" => self.in_text = false,
            "w:tabs" => self.in_tab_stops = false,
            "w:p" | "w:tr" => self.end_line(),
            "w:tc" => self.end_cell(),
            _ => {}
        }
    }

    fn push(&mut self, part: &str) {
        if self.in_text && self.fallbacks == 0 {
            self.text.push_str(part);
        }
    }

    fn end_line(&mut self) {
        if self.text.ends_with('\t') {
            self.text.pop();
        }
        self.text.push('\n');
    }

    /// The last paragraph of a cell ended a line; the cell ends with a tab instead.
    fn end_cell(&mut self) {
        if self.text.ends_with('\n') {
            self.text.pop();
        }
        self.text.push('\t');
    }
}

/// A predefined entity or a character reference.
fn character(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|c| *c != '\0')
        }
    }
}

#[cfg(test)]
#[path = "docx_tests.rs"]
mod tests;
