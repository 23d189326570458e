//! Files of a user's message: what the newest SDK sends is taken, everything else is refused at its place.

use runloom_protocol::attachment::AttachmentKind;
use runloom_protocol::{limits, validate};
use serde_json::{Value, json};

use crate::{only, paths};

fn with(attachments: Value) -> Value {
    let message = json!({"role": "user", "content": "Read this", "attachments": attachments});
    json!({"systemPrompt": "s", "messages": [message]})
}

fn file() -> Value {
    json!({"type": "input_file", "mimeType": "text/plain; charset=utf-8", "filename": "a.txt", "data": "QUI="})
}

fn file_with(key: &str, value: Value) -> Value {
    let mut file = file();
    file[key] = value;
    with(json!([file]))
}

fn address(url: &str) -> Value {
    with(json!([{"type": "input_file_url", "url": url}]))
}

#[test]
fn files_and_addresses_are_taken_as_the_newest_sdk_sends_them() {
    let url = json!({"type": "input_file_url", "url": "https://h.example/a/b.pdf?sig=1", "mimeType": "application/pdf", "filename": "r.pdf"});
    let body = with(json!([file(), url]));
    for read in [
        validate::create_run(&body).unwrap().messages,
        validate::create_message(&body).unwrap().messages,
    ] {
        let [inline, at] = &read[0].attachments[..] else {
            panic!("{read:?}");
        };
        assert_eq!(inline.kind, AttachmentKind::InputFile);
        assert_eq!(inline.size, Some(2));
        assert_eq!(inline.data.as_ref().map(|data| &*data.0), Some("QUI="));
        assert_eq!(at.url.as_deref(), Some("https://h.example/a/b.pdf?sig=1"));
        assert_eq!((at.name(), &at.data, at.size), ("r.pdf", &None, None));
    }
    let silent = json!({"systemPrompt": "s", "messages": [{"role": "user", "content": "", "attachments": [file()]}]});
    assert!(
        validate::create_run(&silent).is_ok(),
        "a file needs no words"
    );
    let none = with(json!([]));
    assert!(validate::create_run(&none).is_ok());
}

#[test]
fn each_slip_is_refused_at_its_place() {
    let at = "messages[0].attachments[0]";
    for (body, path) in [
        (file_with("mimeType", json!("application/zip")), "mimeType"),
        (file_with("mimeType", json!("image/svg+xml")), "mimeType"),
        (file_with("mimeType", json!("audio/ogg")), "mimeType"),
        (file_with("mimeType", json!(null)), "mimeType"),
        (file_with("filename", json!("")), "filename"),
        (
            file_with(
                "filename",
                json!("x".repeat(limits::FILE_NAME_MAX_CHARS + 1)),
            ),
            "filename",
        ),
        (
            file_with("data", json!("data:text/plain;base64,QUI=")),
            "data",
        ),
        (file_with("data", json!("")), "data"),
        (file_with("data", json!(null)), "data"),
        (file_with("type", json!("image_url")), "type"),
        (file_with("type", json!(null)), "type"),
        (address("http://h.example/a.pdf"), "url"),
        (address("file:///etc/passwd"), "url"),
        (address("https://user:secret@h.example/a.pdf"), "url"),
        (address("https://h.example/a b"), "url"),
        (address("https://"), "url"),
    ] {
        let issue = only(validate::create_run(&body));
        assert_eq!(issue.path, format!("{at}.{path}"), "{body}");
        assert!(!issue.message.contains("secret"), "{issue:?}");
    }
    assert_eq!(only(validate::create_run(&with(json!(["a"])))).path, at);
    assert_eq!(
        only(validate::create_run(&with(json!("a")))).path,
        "messages[0].attachments"
    );
}

#[test]
fn number_and_size_have_limits() {
    let path = "messages[0].attachments";
    let many = |count| with(Value::Array(vec![file(); count]));
    assert!(validate::create_run(&many(limits::ATTACHMENTS_MAX)).is_ok());
    let issue = only(validate::create_run(&many(limits::ATTACHMENTS_MAX + 1)));
    assert_eq!(issue.path, path);

    // Three bytes are four digits.
    let sized = |bytes: usize| {
        let mut half = file();
        half["data"] = json!("AAAA".repeat(bytes / 6));
        with(json!([half, half]))
    };
    let max = limits::ATTACHMENTS_MAX_BYTES / 6 * 6;
    assert!(validate::create_run(&sized(max)).is_ok());
    assert_eq!(only(validate::create_run(&sized(max + 6))).path, path);
}

#[test]
fn only_the_last_user_message_has_files() {
    let user = |files: Value| json!({"role": "user", "content": "u", "attachments": files});
    let body = |messages: Value| json!({"systemPrompt": "s", "messages": messages});
    let assistant = json!({"role": "assistant", "content": "a", "attachments": [file()]});
    let system = json!({"role": "system", "content": "s", "attachments": [file()]});
    let messages = json!([
        user(json!([file()])),
        assistant,
        user(json!([file()])),
        system
    ]);
    assert_eq!(
        paths(validate::create_run(&body(messages))),
        [
            "messages[0].attachments",
            "messages[1].attachments",
            "messages[3].attachments"
        ]
    );
}

#[test]
fn files_elsewhere_are_refused_rather_than_forgotten() {
    let beside = json!({"systemPrompt": "s", "prompt": "Read this", "attachments": [file()]});
    let issue = only(validate::create_run(&beside));
    assert_eq!(issue.path, "attachments");
    assert!(issue.message.contains("last user message"), "{issue:?}");
}
