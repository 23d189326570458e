//! Archives as Word writes them, damaged ones and hostile ones.

use std::io::Write;

use proptest::prelude::*;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;

const BODY: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p w:rsidR="1"><w:pPr><w:pStyle w:val="Title"/></w:pPr><w:r><w:t>Q3 &amp; Q4</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">Costs </w:t></w:r><w:r><w:t>&lt; 5&#x20AC;</w:t><w:br/><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t/><w:t>1</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p><w:r><w:instrText>PAGE</w:instrText></w:r></w:p></w:body></w:document>"#;

/// One entry of an archive.
struct Part<'a> {
    name: &'a str,
    method: CompressionMethod,
    content: &'a [u8],
}

fn zip(parts: &[Part<'_>]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for part in parts {
        let options = SimpleFileOptions::default().compression_method(part.method);
        writer.start_file(part.name, options).unwrap();
        writer.write_all(part.content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn stored<'a>(name: &'a str, content: &'a [u8]) -> Part<'a> {
    Part {
        name,
        method: CompressionMethod::Stored,
        content,
    }
}

fn document(method: CompressionMethod) -> Vec<u8> {
    zip(&[
        stored("[Content_Types].xml", b"<Types/>"),
        Part {
            name: "word/document.xml",
            method,
            content: BODY.as_bytes(),
        },
    ])
}

/// A document with nothing but this in it.
fn with_words(xml: &str) -> Vec<u8> {
    zip(&[Part {
        name: "word/document.xml",
        method: CompressionMethod::Deflated,
        content: xml.as_bytes(),
    }])
}

const LIMITS: DocumentLimits = DocumentLimits {
    unpacked_bytes: 32 * 1024 * 1024,
    text_bytes: 5 * 1024 * 1024,
};

fn text(archive: &[u8]) -> Result<String, String> {
    docx_text(archive, LIMITS)
        .map(|document| document.text)
        .map_err(|error| error.to_string())
}

#[test]
fn reads_paragraphs_as_lines() {
    let wanted = "Q3 & Q4\nCosts < 5€\na\tb\nx\t1";
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let read = text(&document(method)).unwrap();
        assert_eq!(read, wanted);
    }
}

#[test]
fn rejects_other_archives_and_bombs() {
    let no_words = zip(&[stored("word/other.xml", b"")]);
    for archive in [&b""[..], b"PK", b"%PDF-1.7", &no_words] {
        assert!(text(archive).unwrap_err().contains("Word"));
    }
    let bomb = with_words(&" ".repeat(32 * 1024 * 1024 + 1));
    assert!(bomb.len() < 64 * 1024);
    assert!(text(&bomb).unwrap_err().contains("unpacked"));
}

#[test]
fn reports_unpacked_bytes_and_rejects_long_text() {
    let half = with_words(&" ".repeat(16 * 1024 * 1024));
    let read = docx_text(&half, LIMITS).unwrap();
    assert_eq!(
        (read.text.as_str(), read.unpacked_bytes),
        ("", 16 * 1024 * 1024)
    );
    let words = with_words(&format!("<w:t>{}</w:t>", "a".repeat(LIMITS.text_bytes + 1)));
    assert_eq!(docx_text(&words, LIMITS), Err(DocumentError::TextTooLong));
}

#[test]
fn keeps_dangling_ampersands() {
    let many = "&".repeat(1024 * 1024);
    let read = text(&with_words(&format!("<w:t>{many}</w:t>"))).unwrap();
    assert_eq!(read, many);
    assert_eq!(
        text_of("<w:t>&#x10FFFF;&;&é;</w:t>", 20).unwrap(),
        "\u{10ffff}&;&é;"
    );
}

#[test]
fn skips_tab_stops_and_fallback_content() {
    let xml = "<w:p><w:pPr><w:tabs><w:tab w:val=\"left\"/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r></w:p>\
        <mc:AlternateContent><mc:Choice Requires=\"wps\"><w:p><w:t>box</w:t></w:p></mc:Choice>\
        <mc:Fallback><w:p><w:t>box</w:t></w:p></mc:Fallback></mc:AlternateContent><w:p><w:t>end</w:t></w:p>";
    assert_eq!(text_of(xml, 100).unwrap(), "a\tb\nbox\nend");
}

#[test]
fn reads_the_main_part_that_relations_name() {
    let relations = b"<Relationships><Relationship Id=\"a\" Type=\"x/metadata\" Target=\"docProps/core.xml\"/>\
        <Relationship Target=\"/word/document2.xml\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\"/></Relationships>";
    let archive = zip(&[
        stored("_rels/.rels", relations),
        stored("word/document2.xml", b"<w:t>here</w:t>"),
    ]);
    assert_eq!(text(&archive).unwrap(), "here");
}

proptest! {
    #[test]
    fn never_panics_on_damaged_archives(
        cut in 0..2_000_usize,
        changes in proptest::collection::vec((0..2_000_usize, any::<u8>()), 0..8),
    ) {
        let mut archive = document(CompressionMethod::Deflated);
        for (at, byte) in changes {
            if let Some(place) = archive.get_mut(at) {
                *place = byte;
            }
        }
        archive.truncate(archive.len().saturating_sub(cut / 4));
        let _ = text(&archive);
    }

    #[test]
    fn never_panics_on_any_xml(xml in "[<>/&;#xw:tpcrab 0-9\"é]{0,200}") {
        let _ = text_of(&xml, 50);
    }
}
