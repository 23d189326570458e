//! Files in every adapter: supported ones are sent, and none is dropped silently.

use runloom_ports::file::{File, FileContent};
use runloom_ports::model::{Message, ModelRequest};
use runloom_protocol::attachment::{AUDIO, IMAGES, PDF};

use crate::cases::ask;
use crate::providers::Row;
use crate::requests::sent;

const DATA: &str = "QUJD";
const URL: &str = "https://files.example/a";

pub fn file(name: &str, mime_type: &str, content: FileContent) -> File {
    File {
        name: name.into(),
        mime_type: mime_type.into(),
        size: Some(3),
        content,
    }
}

pub fn with_files(text: &str, files: Vec<File>) -> ModelRequest {
    ModelRequest {
        messages: vec![Message::UserFiles {
            text: text.into(),
            files: files.into(),
        }]
        .into(),
        ..ask("")
    }
}

pub async fn are_sent_as_the_capabilities_say(row: &Row) {
    let taken = row.capabilities().files;
    for mime_type in IMAGES.iter().chain(&AUDIO).chain(&[PDF]).copied() {
        let inline = file("a.bin", mime_type, FileContent::Base64(DATA.into()));
        let body = body(row, inline).await;
        assert_eq!(
            body.contains(DATA),
            taken.takes(mime_type),
            "{mime_type}: {body}"
        );
        assert_eq!(body.contains("left out"), !taken.takes(mime_type), "{body}");
        assert!(body.contains("a.bin"), "{body}");
        if taken.fetches(mime_type) {
            let address = file("a.bin", mime_type, FileContent::Url(URL.into()));
            let body = self::body(row, address).await;
            assert!(body.contains(URL), "{body}");
        }
    }
    for text in ["line one", " "] {
        let notes = file("n.csv", "text/csv", FileContent::Text(text.into()));
        let body = body(row, notes).await;
        assert!(body.contains("n.csv") && body.contains(text), "{body}");
    }
}

async fn body(row: &Row, file: File) -> String {
    let asked = sent(row, with_files("Look.", vec![file])).await;
    String::from_utf8(asked.body.to_vec()).unwrap()
}
