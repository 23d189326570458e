//! At the limit accepted, one over refused at the right place: answers to tool calls.

use runloom_protocol::spec::ToolAnswer;
use runloom_protocol::{limits, validate};
use serde_json::{Value, json};

use crate::{only, paths};

fn answer(key: &str, value: Value) -> Value {
    json!({"toolUseId": "tu_1", key: value})
}

fn with_files(files: Value) -> Value {
    json!({"toolUseId": "tu_1", "result": "", "files": files})
}

fn file() -> Value {
    json!({"filename": "a.txt", "mimeType": "text/plain", "data": "QQ=="})
}

fn file_with(key: &str, value: Value) -> Value {
    let mut file = file();
    file[key] = value;
    with_files(json!([file]))
}

#[test]
fn results_and_errors_are_counted_in_bytes() {
    let table = [
        ("result", limits::TOOL_RESULT_MAX_BYTES),
        ("error", limits::TOOL_ERROR_MAX_BYTES),
    ];
    for (key, max) in table {
        assert!(validate::tool_result(&answer(key, json!("é".repeat(max / 2)))).is_ok());
        let issue = only(validate::tool_result(&answer(
            key,
            json!("é".repeat(max / 2) + "x"),
        )));
        assert_eq!(issue.path, key);
    }
}

#[test]
fn an_empty_string_is_an_answer() {
    let empty = validate::tool_result(&answer("result", json!(""))).unwrap();
    assert_eq!(empty.answer, ToolAnswer::Result(String::new()));
    let empty = validate::tool_result(&answer("error", json!(""))).unwrap();
    assert_eq!(empty.answer, ToolAnswer::Error(String::new()));
    assert_eq!(empty.tool_use_id, "tu_1");
}

#[test]
fn exactly_one_answer_is_needed() {
    assert_eq!(
        only(validate::tool_result(&json!({"toolUseId": "tu_1"}))).path,
        "result"
    );
    assert_eq!(
        only(validate::tool_result(&answer("result", json!(null)))).path,
        "result"
    );
    let both = json!({"toolUseId": "tu_1", "result": "", "error": ""});
    assert!(
        only(validate::tool_result(&both))
            .message
            .contains("not both")
    );
    let null_beside = json!({"toolUseId": "tu_1", "result": null, "error": "no"});
    assert_eq!(
        validate::tool_result(&null_beside).unwrap().answer,
        ToolAnswer::Error("no".into())
    );
}

#[test]
fn a_result_must_be_a_string() {
    let issue = only(validate::tool_result(&answer("result", json!({"a": 1}))));
    assert_eq!(
        (issue.path.as_str(), issue.message.as_str()),
        ("result", "expected a string, got an object")
    );
}

#[test]
fn the_call_must_be_named() {
    let with = |id: Value| json!({"toolUseId": id, "result": "r"});
    assert!(validate::tool_result(&with(json!("t".repeat(256)))).is_ok());
    for id in [json!("t".repeat(257)), json!(""), json!(7), json!(null)] {
        assert_eq!(only(validate::tool_result(&with(id))).path, "toolUseId");
    }
    assert_eq!(
        paths(validate::tool_result(&json!({}))),
        ["toolUseId", "result"]
    );
}

#[test]
fn files_are_carried_beside_a_result() {
    let answer = validate::tool_result(&with_files(json!([file()]))).unwrap();
    let [carried] = &answer.files[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(carried.name(), "a.txt");
    assert_eq!(carried.mime_type.as_deref(), Some("text/plain"));
    assert_eq!(carried.data.as_ref().map(|data| &*data.0), Some("QQ=="));
    assert_eq!(carried.size, Some(1));
    assert!(
        validate::tool_result(&with_files(json!(null)))
            .unwrap()
            .files
            .is_empty()
    );
    let beside_error = json!({"toolUseId": "tu_1", "error": "no", "files": [file()]});
    assert_eq!(only(validate::tool_result(&beside_error)).path, "files");
}

#[test]
fn files_have_limits() {
    assert!(validate::tool_result(&with_files(json!(vec![file(); 20]))).is_ok());
    assert_eq!(
        only(validate::tool_result(&with_files(json!(vec![file(); 21])))).path,
        "files"
    );
    // 5 MB leave two bytes over when divided by three; the second file brings the byte that is one too many.
    let full = "A".repeat(limits::TOOL_FILES_MAX_BYTES / 3 * 4) + "QUE=";
    assert!(validate::tool_result(&file_with("data", json!(full))).is_ok());
    let mut big = file();
    big["data"] = json!(full);
    assert_eq!(
        only(validate::tool_result(&with_files(json!([big, file()])))).path,
        "files"
    );
}

#[test]
fn fields_of_files_have_limits() {
    assert!(validate::tool_result(&file_with("filename", json!("é".repeat(255)))).is_ok());
    for mime in [
        "image/PNG",
        "text/markdown; charset=utf-8",
        "application/json",
        "application/pdf",
        "audio/wav",
    ] {
        assert!(
            validate::tool_result(&file_with("mimeType", json!(mime))).is_ok(),
            "{mime}"
        );
    }
    let table = [
        ("filename", json!("é".repeat(256))),
        ("filename", json!("")),
        ("filename", json!(null)),
        ("mimeType", json!("application/x-msdownload")),
        ("mimeType", json!("text/")),
        ("mimeType", json!("image")),
        ("mimeType", json!(1)),
        ("data", json!("data:text/plain;base64,QQ==")),
        ("data", json!("QQ")),
        ("data", json!(null)),
    ];
    for (key, bad) in table {
        let issue = only(validate::tool_result(&file_with(key, bad)));
        assert_eq!(issue.path, format!("files[0].{key}"));
    }
}
