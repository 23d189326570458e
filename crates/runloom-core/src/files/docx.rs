//! The text of a Word document: one entry of a ZIP archive, XML in it. Everything is bounded, because anybody may send one.

use std::borrow::Cow;

use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_with_limit};

use super::Room;

/// The entry with the document's words, where nothing else is said.
const ENTRY: &str = "word/document.xml";

/// The entry that says which entry has the words, and its bytes when it is unpacked.
const RELATIONS: &str = "_rels/.rels";
const MAX_RELATIONS_BYTES: usize = 64 * 1024;

/// Entries of an archive that are looked at.
const MAX_ENTRIES: usize = 4096;

/// Bytes of the longest character by number, `&#x10FFFF;`, and a zero to spare.
const MAX_ENTITY_BYTES: usize = 11;

const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const ENTRY_OF_DIRECTORY: &[u8] = b"PK\x01\x02";
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// The words of a document, a line for each paragraph; cells of tables are apart by tabs.
///
/// # Errors
/// It is no Word document, or one for which there is no room.
pub(super) fn text(archive: &[u8], room: &mut Room) -> Result<String, String> {
    let named = main_part(archive);
    let xml = named
        .and_then(|name| entry(archive, &name))
        .or_else(|| entry(archive, ENTRY))
        .ok_or("is not a Word document (.docx)")?;
    let limit = room.take_xml();
    let xml = xml.unpacked(limit).map_err(|status| match status {
        TINFLStatus::HasMoreOutput => {
            format!("is too large a Word document: more than {limit} bytes when it is unpacked")
        }
        status => format!("is not a Word document that can be unpacked: {status:?}"),
    })?;
    room.give_back_xml(limit.saturating_sub(xml.len()));
    let xml = std::str::from_utf8(&xml).map_err(|_| "is not a Word document in UTF-8")?;
    words(xml, room.text).ok_or_else(|| room.exceeded())
}

enum Entry<'a> {
    Stored(&'a [u8]),
    Deflated(&'a [u8]),
}

impl<'a> Entry<'a> {
    fn unpacked(self, limit: usize) -> Result<Cow<'a, [u8]>, TINFLStatus> {
        match self {
            Self::Stored(bytes) if bytes.len() > limit => Err(TINFLStatus::HasMoreOutput),
            Self::Stored(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Deflated(bytes) => decompress_to_vec_with_limit(bytes, limit)
                .map(Cow::Owned)
                .map_err(|error| error.status),
        }
    }
}

/// The name of the entry with the words, as the archive tells it.
fn main_part(archive: &[u8]) -> Option<String> {
    let xml = entry(archive, RELATIONS)?
        .unpacked(MAX_RELATIONS_BYTES)
        .ok()?;
    let xml = std::str::from_utf8(&xml).ok()?;
    let mut tags = xml
        .split('<')
        .filter(|tag| tag.starts_with("Relationship "));
    let is_main = |tag: &&str| {
        let kind = attribute(tag, "Type");
        kind.is_some_and(|kind| kind.ends_with("/officeDocument"))
    };
    let target = attribute(tags.find(is_main)?, "Target")?;
    Some(target.trim_start_matches('/').to_owned())
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}="))?;
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    value[1..].split(quote).next()
}

/// The packed bytes of an entry, found through the archive's directory.
fn entry<'a>(archive: &'a [u8], wanted: &str) -> Option<Entry<'a>> {
    // The end record is the last thing in the file, but for a comment of at most 64 KB.
    let tail = archive.len().saturating_sub(64 * 1024 + 22);
    let end = tail + memchr::memmem::rfind(archive.get(tail..)?, END_OF_DIRECTORY)?;
    let count = usize::from(u16_at(archive, end + 10)?).min(MAX_ENTRIES);
    let mut at = u32_at(archive, end + 16)?;
    for _ in 0..count {
        if archive.get(at..at + 4)? != ENTRY_OF_DIRECTORY {
            return None;
        }
        let method = u16_at(archive, at + 10)?;
        let packed = u32_at(archive, at + 20)?;
        let name = usize::from(u16_at(archive, at + 28)?);
        let extra = usize::from(u16_at(archive, at + 30)?);
        let comment = usize::from(u16_at(archive, at + 32)?);
        if archive.get(at + 46..at + 46 + name)? == wanted.as_bytes() {
            let local = u32_at(archive, at + 42)?;
            return content(archive, local, packed, method);
        }
        at += 46 + name + extra + comment;
    }
    None
}

fn content(archive: &[u8], local: usize, packed: usize, method: u16) -> Option<Entry<'_>> {
    if archive.get(local..local + 4)? != LOCAL_HEADER {
        return None;
    }
    let name = usize::from(u16_at(archive, local + 26)?);
    let extra = usize::from(u16_at(archive, local + 28)?);
    let from = local + 30 + name + extra;
    let bytes = archive.get(from..from.checked_add(packed)?)?;
    match method {
        0 => Some(Entry::Stored(bytes)),
        8 => Some(Entry::Deflated(bytes)),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
}

/// What stands in the text elements of the document, and where lines end; `None` when it is more than so many bytes.
fn words(xml: &str, most: usize) -> Option<String> {
    let mut text = String::new();
    let mut rest = xml;
    let mut inside = false;
    // Stops of tabs are no tabs, and what is there for old programs was told already.
    let (mut stops, mut fallbacks) = (false, 0_usize);
    while let Some(at) = rest.find('<') {
        if inside && fallbacks == 0 {
            unescaped(&rest[..at], &mut text);
        }
        if text.len() > most {
            return None;
        }
        let Some(end) = rest[at..].find('>') else {
            break;
        };
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        let is_empty = tag.ends_with('/');
        let name_ends = tag
            .get(1..)
            .and_then(|tag| tag.find([' ', '\t', '\r', '\n', '/']));
        let name = name_ends.map_or(tag, |end| &tag[..=end]);
        match name {
            "mc:Fallback" if !is_empty => fallbacks += 1,
            "/mc:Fallback" => fallbacks = fallbacks.saturating_sub(1),
            _ if fallbacks > 0 => {}
            "w:t" => inside = !is_empty,
            "/w:t" => inside = false,
            "w:tabs" => stops = !is_empty,
            "/w:tabs" => stops = false,
            "/w:p" | "/w:tr" => end_line(&mut text),
            "/w:tc" => tab_instead_of_line(&mut text),
            "w:tab" if !stops => text.push('\t'),
            "w:br" | "w:cr" => text.push('\n'),
            _ => {}
        }
    }
    (text.len() <= most).then(|| text.trim().to_owned())
}

fn end_line(text: &mut String) {
    if text.ends_with('\t') {
        text.pop();
    }
    text.push('\n');
}

/// The paragraphs of a cell end lines; the last of them ends the cell.
fn tab_instead_of_line(text: &mut String) {
    if text.ends_with('\n') {
        text.pop();
    }
    text.push('\t');
}

/// XML's own five entities and characters by number; anything else is left as it is.
fn unescaped(escaped: &str, text: &mut String) {
    let mut rest = escaped;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        // No further than an entity is long: a text may be nothing but ampersands.
        let near = rest.bytes().take(MAX_ENTITY_BYTES);
        let entity = near.enumerate().find(|(_, byte)| *byte == b';');
        let entity = entity.map(|(end, _)| end);
        let known = entity.and_then(|end| Some((end, character(&rest[1..end])?)));
        match known {
            Some((end, character)) => {
                text.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                text.push('&');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
}

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
pub(super) mod tests;
