//! Bodies, routes and cursors as no SDK sends them: refused in shape, and nothing is created.

use serde_json::{Value, json};

use crate::http::{Answer, Api, raw};
use crate::server::{Server, settings};
use crate::sse::{Stream, replay, until};

const LIMIT: usize = 64 * 1024;

fn small(folder: &tempfile::TempDir) -> Server {
    let limit = LIMIT.to_string();
    Server::dev(
        folder.path(),
        &settings([("RUNLOOM_LIMITS__MAX_BODY_BYTES", &limit)]),
    )
}

fn agent(prompt: &str) -> Value {
    json!({"systemPrompt": "s", "modelId": "platform:demo", "prompt": prompt})
}

fn post(api: &Api, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    api.send("POST", "/agent-runs", headers, body).unwrap()
}

fn head(api: &Api, rest: &str) -> String {
    format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{rest}\r\n",
        api.path("/agent-runs"),
        api.key
    )
}

fn nothing_was_created(api: &Api) {
    assert_eq!(api.get("/agent-runs?includeTotal=true").json()["total"], 0);
}

#[test]
fn refuses_bodies_over_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let too_large = (413, "payload_too_large".to_owned());
    let body = agent(&"x".repeat(LIMIT)).to_string();
    assert_eq!(post(&api, &[], body.as_bytes()).refusal(), too_large);
    // A length alone is enough: nothing of the body has to be sent.
    let announced = raw(
        &api.address,
        head(&api, "Content-Length: 9999999999\r\n").as_bytes(),
    )
    .unwrap();
    assert_eq!(announced.refusal(), too_large);
    // Without a length it is counted.
    let chunked = format!(
        "{}{:x}\r\n{body}\r\n0\r\n\r\n",
        head(&api, "Transfer-Encoding: chunked\r\n"),
        body.len()
    );
    assert_eq!(
        raw(&api.address, chunked.as_bytes()).unwrap().refusal(),
        too_large
    );
    nothing_was_created(&api);
    // Just below it passes, with and without a length.
    let fill = LIMIT - agent("say ").to_string().len();
    let fits = agent(&format!("say {}", "y".repeat(fill))).to_string();
    assert_eq!(fits.len(), LIMIT);
    assert_eq!(post(&api, &[], fits.as_bytes()).status, 202);
    let chunked = format!(
        "{}{:x}\r\n{fits}\r\n0\r\n\r\n",
        head(&api, "Transfer-Encoding: chunked\r\n"),
        fits.len()
    );
    assert_eq!(raw(&api.address, chunked.as_bytes()).unwrap().status, 202);
}

#[test]
fn refuses_other_content_types() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let body = agent("say hi").to_string();
    for headers in [
        [("Content-Type", "text/plain")],
        [("Content-Type", "application/x-www-form-urlencoded")],
        [("Content-Type", "application/jsonp")],
        [("Content-Encoding", "gzip")],
    ] {
        let answer = post(&api, &headers, body.as_bytes());
        assert_eq!(
            answer.refusal(),
            (415, "unsupported_media_type".to_owned()),
            "{headers:?}"
        );
    }
    let bare = head(&api, &format!("Content-Length: {}\r\n", body.len()))
        .replace("Content-Type: application/json\r\n", "");
    assert_eq!(
        raw(&api.address, (bare + &body).as_bytes())
            .unwrap()
            .refusal()
            .0,
        415
    );
    nothing_was_created(&api);
    let charset = [("Content-Type", "application/json; charset=utf-8")];
    assert_eq!(post(&api, &charset, body.as_bytes()).status, 202);
}

#[test]
fn locates_malformed_json() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let deep = |levels: usize| {
        format!(
            "{{\"metadata\":{}{}}}",
            "[".repeat(levels),
            "]".repeat(levels)
        )
        .into_bytes()
    };
    for (body, told) in [
        (b"{\n  \"prompt\": \"x\",\n}".to_vec(), "line 3, column 1"),
        (b"{\"prompt\": ".to_vec(), "line 1, column 11"),
        (b"not json".to_vec(), "not valid JSON"),
        (b"{} {}".to_vec(), "trailing characters"),
        (b"{\"prompt\": \"\xff\xfe\"}".to_vec(), "line 1"),
        (br#"{"prompt": "\ud8zz"}"#.to_vec(), "line 1"),
        (
            br#"{"reasoningLevel": 1e999}"#.to_vec(),
            "number out of range",
        ),
        (deep(10_000), "nested deeper than 100 levels"),
        (b"   ".to_vec(), "is empty"),
        (b"[]".to_vec(), "object"),
        (b"null".to_vec(), "object"),
    ] {
        let answer = post(&api, &[], &body);
        assert_eq!(answer.refusal(), (400, "invalid_request".to_owned()));
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains(told), "{told:?} is not in {text}");
    }
    let empty = raw(&api.address, head(&api, "Content-Length: 0\r\n").as_bytes()).unwrap();
    assert_eq!(empty.refusal().0, 400);
    nothing_was_created(&api);
}

#[test]
fn reports_all_violations_of_a_spec() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let body = json!({"prompt": "a", "messages": [], "reasoningLevel": 101, "metadata": {"a b": 1},
                      "tools": [{"kind": "local", "name": "t t"}, {"kind": "nonsense"}], "budgets": {"maxToolTurns": 0}});
    let answer = api.post("/agent-runs", &body);
    assert_eq!(answer.refusal(), (400, "invalid_request".to_owned()));
    let issues = answer.json()["issues"].as_array().unwrap().clone();
    let paths: Vec<&str> = issues
        .iter()
        .map(|issue| issue["path"].as_str().unwrap())
        .collect();
    for wanted in [
        "systemPrompt",
        "reasoningLevel",
        "metadata",
        "tools",
        "budgets",
    ] {
        assert!(
            paths.iter().any(|path| path.starts_with(wanted)),
            "{wanted} is not in {paths:?}"
        );
    }
    let unknown = api.post(
        "/agent-runs",
        &json!({"systemPrompt": "s", "prompt": "p", "modelId": "platform:dmeo"}),
    );
    assert_eq!(unknown.refusal(), (400, "invalid_model".to_owned()));
    nothing_was_created(&api);
}

#[test]
fn keeps_control_characters() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let text = "say a\u{0}b\u{1b}[2J\u{7f}\u{2028}\u{feff}\u{1f4a5}z";
    let run = api.run(&agent(text));
    let log = replay(&api, &run).unwrap();
    assert_eq!(
        log.last().unwrap().data()["text"],
        text.strip_prefix("say ").unwrap()
    );
    assert_eq!(
        api.get(&format!("/agent-runs/{run}")).json()["finalText"],
        text.strip_prefix("say ").unwrap()
    );
}

#[test]
fn refuses_unknown_routes_and_methods() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    for path in [
        "/nope",
        "/agent-runs/run_1/nope",
        "//agent-runs",
        "/agent-runs/",
    ] {
        assert_eq!(
            api.get(path).refusal(),
            (404, "not_found".to_owned()),
            "{path}"
        );
    }
    for (method, path) in [
        ("DELETE", "/agent-runs"),
        ("PATCH", "/agent-runs/run_1"),
        ("PUT", "/models"),
        ("OPTIONS", "/agent-runs"),
        ("BREW", "/models"),
    ] {
        let answer = api.send(method, path, &[], b"").unwrap();
        assert_eq!(
            answer.refusal(),
            (405, "method_not_allowed".to_owned()),
            "{method} {path}"
        );
        assert!(
            answer.header("allow").is_some(),
            "{method} {path}: {answer:?}"
        );
    }
    for answer in [api.get("/nope"), api.get("/models")] {
        assert!(
            answer
                .header("x-request-id")
                .is_some_and(|id| id.starts_with("req_"))
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[test]
fn refuses_malformed_cursors() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let run = api.run(&agent("say one two three"));
    let log = replay(&api, &run).unwrap();
    let path = format!("/agent-runs/{run}/stream");
    for evil in [
        "abc",
        "-1",
        "1e3",
        "0x10",
        "1.0",
        "99999999999999999999",
        "18446744073709551616",
        "%00",
        "%31%20",
        "1;2",
    ] {
        let answer = api.get(&format!("{path}?lastSeq={evil}"));
        assert_eq!(
            answer.refusal(),
            (400, "invalid_request".to_owned()),
            "{evil}"
        );
    }
    for evil in ["abc", "-1", "1 2", "99999999999999999999", "NaN"] {
        let answer = api
            .send("GET", &path, &[("Last-Event-ID", evil)], b"")
            .unwrap();
        assert_eq!(
            answer.refusal(),
            (400, "invalid_request".to_owned()),
            "{evil}"
        );
    }
    let stored: Vec<u8> = log[2..].iter().flat_map(|frame| frame.0.clone()).collect();
    let both = api
        .send(
            "GET",
            &format!("{path}?lastSeq=2"),
            &[("Last-Event-ID", "4")],
            b"",
        )
        .unwrap();
    assert!(both.body.ends_with(&stored), "the query must win");
}

#[test]
fn a_cursor_at_the_end_of_an_ended_run_ends_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let run = api.run(&agent("say hi"));
    let last = replay(&api, &run).unwrap().len();
    let path = format!("/agent-runs/{run}/stream");
    let last = last.to_string();
    let header = [("Last-Event-ID", last.as_str())];
    // `EventSource` sends the header alone and reconnects unless the response is 204.
    let browser = api.send("GET", &path, &header, b"").unwrap();
    assert_eq!((browser.status, browser.body.len()), (204, 0));
    let both = format!("{path}?lastSeq={last}");
    for headers in [&header[..], &[]] {
        let sdk = api.send("GET", &both, headers, b"").unwrap();
        assert_eq!(sdk.status, 200);
        assert!(!String::from_utf8_lossy(&sdk.body).contains("data:"));
    }
    for past in ["1000000", "9223372036854775807"] {
        let query = api.get(&format!("{path}?lastSeq={past}"));
        assert_eq!(query.refusal(), (400, "invalid_request".to_owned()));
        let header = [("Last-Event-ID", past)];
        let header = api.send("GET", &path, &header, b"").unwrap();
        assert_eq!(header.refusal(), (400, "invalid_request".to_owned()));
    }
}

#[test]
fn cursor_past_the_end_closes_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = small(&folder);
    let api = server.api();
    let mut body = agent("call act {}");
    body["tools"] = json!([{"kind": "local", "name": "act", "parameters": {"type": "object"}}]);
    let run = api.run(&body);
    let mut ahead = Stream::open(&api, &run, 1_000_000).unwrap().unwrap();
    let call = until(
        &mut Stream::open(&api, &run, 0).unwrap().unwrap(),
        "local_tool_call",
    )
    .data();
    let answer = json!({"toolUseId": call["toolUseId"], "result": "r"});
    assert_eq!(
        api.post(&format!("/agent-runs/{run}/tool-results"), &answer)
            .status,
        200
    );
    assert_eq!(ahead.next().unwrap(), None);
}
