//! Archives as Word writes them, and such as nobody should.

use miniz_oxide::deflate::compress_to_vec;
use proptest::prelude::*;

use super::*;

const BODY: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p w:rsidR="1"><w:pPr><w:pStyle w:val="Title"/></w:pPr><w:r><w:t>Q3 &amp; Q4</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">Costs </w:t></w:r><w:r><w:t>&lt; 5&#x20AC;</w:t><w:br/><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t/><w:t>1</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p><w:r><w:instrText>PAGE</w:instrText></w:r></w:p></w:body></w:document>"#;

/// One entry of an archive: its name, how it is packed, and what is in it.
type Packed<'a> = (&'a str, u16, Vec<u8>);

fn zip(entries: &[Packed<'_>]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, method, bytes) in entries {
        let local = archive.len() as u32;
        let (size, length) = (bytes.len() as u32, name.len() as u16);
        archive.extend_from_slice(b"PK\x03\x04\x14\0\0\0");
        archive.extend_from_slice(&method.to_le_bytes());
        archive.extend_from_slice(&[0; 8]);
        archive.extend_from_slice(&size.to_le_bytes());
        archive.extend_from_slice(&[0; 4]);
        archive.extend_from_slice(&length.to_le_bytes());
        archive.extend_from_slice(&[0; 2]);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(bytes);
        directory.extend_from_slice(b"PK\x01\x02\x14\0\x14\0\0\0");
        directory.extend_from_slice(&method.to_le_bytes());
        directory.extend_from_slice(&[0; 8]);
        directory.extend_from_slice(&size.to_le_bytes());
        directory.extend_from_slice(&[0; 4]);
        directory.extend_from_slice(&length.to_le_bytes());
        directory.extend_from_slice(&[0; 12]);
        directory.extend_from_slice(&local.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let start = archive.len() as u32;
    let size = directory.len() as u32;
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    let count = (entries.len() as u16).to_le_bytes();
    archive.extend_from_slice(&count);
    archive.extend_from_slice(&count);
    archive.extend_from_slice(&size.to_le_bytes());
    archive.extend_from_slice(&start.to_le_bytes());
    archive.extend_from_slice(&[0; 2]);
    archive
}

fn document(method: u16) -> Vec<u8> {
    let body = match method {
        0 => BODY.as_bytes().to_vec(),
        _ => compress_to_vec(BODY.as_bytes(), 6),
    };
    zip(&[
        ("[Content_Types].xml", 0, b"<Types/>".to_vec()),
        ("word/document.xml", method, body),
    ])
}

/// A document with nothing but this in it.
pub(crate) fn with_words(xml: &str) -> Vec<u8> {
    zip(&[("word/document.xml", 8, compress_to_vec(xml.as_bytes(), 6))])
}

fn room() -> Room {
    Room::beside(&[], 5 * 1024 * 1024)
}

fn text(archive: &[u8]) -> Result<String, String> {
    super::text(archive, &mut room())
}

#[test]
fn the_words_of_a_document_come_out_in_lines() {
    let wanted = "Q3 & Q4\nCosts < 5€\na\tb\nx\t1";
    for method in [0, 8] {
        let read = text(&document(method)).unwrap();
        assert_eq!(read, wanted);
    }
}

#[test]
fn what_is_no_document_or_hides_too_much_is_refused() {
    let no_words = zip(&[("word/other.xml", 0, Vec::new())]);
    let encrypted = zip(&[("word/document.xml", 99, Vec::new())]);
    for archive in [&b""[..], b"PK", b"%PDF-1.7", &no_words, &encrypted] {
        assert!(text(archive).unwrap_err().contains("Word"));
    }
    let bomb = with_words(&" ".repeat(32 * 1024 * 1024 + 1));
    assert!(bomb.len() < 64 * 1024);
    assert!(text(&bomb).unwrap_err().contains("unpacked"));
}

#[test]
fn documents_share_the_room_for_what_is_unpacked() {
    let mut room = room();
    let half = with_words(&" ".repeat(16 * 1024 * 1024));
    for _ in 0..2 {
        assert_eq!(super::text(&half, &mut room).unwrap(), "");
    }
    let more = super::text(&half, &mut room).unwrap_err();
    assert!(more.contains("too large"), "{more}");
    let words = with_words(&format!("<w:t>{}</w:t>", "a".repeat(5 * 1024 * 1024 + 1)));
    assert!(text(&words).unwrap_err().contains("all files together"));
}

#[test]
fn a_document_of_ampersands_is_read_in_one_pass() {
    let many = "&".repeat(1024 * 1024);
    let read = text(&with_words(&format!("<w:t>{many}</w:t>"))).unwrap();
    assert_eq!(read, many);
    assert_eq!(
        words("<w:t>&#x10FFFF;&;&é;</w:t>", 20).unwrap(),
        "\u{10ffff}&;&é;"
    );
}

#[test]
fn stops_of_tabs_and_fallbacks_for_old_programs_are_no_words() {
    let xml = "<w:p><w:pPr><w:tabs><w:tab w:val=\"left\"/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p>\
        <mc:AlternateContent><mc:Choice Requires=\"wps\"><w:p><w:t>box</w:t></w:p></mc:Choice>\
        <mc:Fallback><w:p><w:t>box</w:t></w:p></mc:Fallback></mc:AlternateContent><w:p><w:t>end</w:t></w:p>";
    assert_eq!(words(xml, 100).unwrap(), "a\tb\nbox\nend");
}

#[test]
fn the_main_part_is_the_one_that_the_archive_names() {
    let relations = b"<Relationships><Relationship Id=\"a\" Type=\"x/metadata\" Target=\"docProps/core.xml\"/>\
        <Relationship Target=\"/word/document2.xml\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\"/></Relationships>";
    let archive = zip(&[
        ("_rels/.rels", 0, relations.to_vec()),
        ("word/document2.xml", 0, b"<w:t>here</w:t>".to_vec()),
    ]);
    assert_eq!(text(&archive).unwrap(), "here");
}

proptest! {
    #[test]
    fn damaged_archives_are_refused_or_read_and_never_a_panic(
        cut in 0..2_000_usize,
        changes in proptest::collection::vec((0..2_000_usize, any::<u8>()), 0..8),
    ) {
        let mut archive = document(8);
        for (at, byte) in changes {
            if let Some(place) = archive.get_mut(at) {
                *place = byte;
            }
        }
        archive.truncate(archive.len().saturating_sub(cut / 4));
        let _ = text(&archive);
    }

    #[test]
    fn any_xml_is_read_to_its_end(xml in "[<>/&;#xw:tpcrab 0-9\"é]{0,200}") {
        let _ = words(&xml, 50);
    }
}
