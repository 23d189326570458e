//! The text of a Word document: one entry of a ZIP archive, XML in it. Everything is bounded, because anybody may send one.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// The entry with the document's words.
const ENTRY: &[u8] = b"word/document.xml";

/// Bytes of that entry when it is unpacked.
const MAX_XML_BYTES: usize = 32 * 1024 * 1024;

/// Entries of an archive that are looked at.
const MAX_ENTRIES: usize = 4096;

const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const ENTRY_OF_DIRECTORY: &[u8] = b"PK\x01\x02";
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// The words of a document, a line for each paragraph; cells of tables are apart by tabs.
///
/// # Errors
/// It is no Word document, or too large a one.
pub(super) fn text(archive: &[u8]) -> Result<String, String> {
    let xml = entry(archive).ok_or("is not a Word document (.docx)")?;
    let xml = match xml {
        Entry::Stored(bytes) => bytes.to_vec(),
        Entry::Deflated(bytes) => decompress_to_vec_with_limit(bytes, MAX_XML_BYTES)
            .map_err(|error| format!("is not a Word document that can be unpacked: {error}"))?,
    };
    let xml = String::from_utf8(xml).map_err(|_| "is not a Word document in UTF-8")?;
    Ok(words(&xml))
}

enum Entry<'a> {
    Stored(&'a [u8]),
    Deflated(&'a [u8]),
}

/// The packed bytes of the document's entry, found through the archive's directory.
fn entry(archive: &[u8]) -> Option<Entry<'_>> {
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
        if archive.get(at + 46..at + 46 + name)? == ENTRY {
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

/// What stands in the text elements of the document, and where lines end.
fn words(xml: &str) -> String {
    let mut text = String::new();
    let mut rest = xml;
    let mut inside = false;
    while let Some(at) = rest.find('<') {
        if inside {
            unescaped(&rest[..at], &mut text);
        }
        let Some(end) = rest[at..].find('>') else {
            break;
        };
        let tag = &rest[at + 1..at + end];
        let name = tag.split([' ', '\t', '\r', '\n', '/']).next();
        let closes = tag.starts_with('/');
        match name.unwrap_or_default() {
            "w:t" => inside = !tag.ends_with('/'),
            "" if tag == "/w:t" => inside = false,
            "" if closes && matches!(tag, "/w:p" | "/w:tr") => end_line(&mut text),
            "" if tag == "/w:tc" => tab_instead_of_line(&mut text),
            "w:tab" => text.push('\t'),
            "w:br" | "w:cr" => text.push('\n'),
            _ => {}
        }
        rest = &rest[at + end + 1..];
    }
    text.trim().to_owned()
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
        let entity = rest.find(';').filter(|end| *end <= 10);
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
mod tests;
