//! At the limit accepted, one over refused at the right place: URLs and headers of remote tools.

use runloom_protocol::{limits, validate};
use serde_json::{Map, Value, json};

use crate::limits_of_tools::{a2a, bounds, mcp};
use crate::{only, run_with_tools};

#[test]
fn headers_have_limits() {
    let many = |count: usize| {
        Value::Object(
            (0..count)
                .map(|i| (format!("X-{i}"), json!("v")))
                .collect::<Map<_, _>>(),
        )
    };
    let max = limits::HEADER_VALUE_MAX_BYTES;
    for base in [a2a(), mcp()] {
        let header = |value: String| json!({"Authorization": value});
        bounds(
            &base,
            "headers",
            header("x".repeat(max)),
            header("x".repeat(max + 1)),
            "headers.Authorization",
        );
        bounds(
            &base,
            "headers",
            header("Bearer a\tb~".into()),
            header("a\r\nHost: b".into()),
            "headers.Authorization",
        );
        bounds(
            &base,
            "headers",
            header(String::new()),
            header("é".into()),
            "headers.Authorization",
        );
        bounds(&base, "headers", many(64), many(65), "headers");
        bounds(
            &base,
            "headers",
            json!({"x!#$%&'*+-.^_`|~9": "v"}),
            json!({"a b": "v"}),
            "headers.a b",
        );
        bounds(&base, "headers", json!({}), json!({"": "v"}), "headers.");
        bounds(
            &base,
            "headers",
            json!({"a": "1"}),
            json!({"a": 1}),
            "headers.a",
        );
        bounds(
            &base,
            "headers",
            json!(null),
            json!("Authorization: x"),
            "headers",
        );
    }
    let long = format!("headers.{}…", "a".repeat(80));
    bounds(
        &mcp(),
        "headers",
        json!({"a".repeat(256): "v"}),
        json!({"a".repeat(257): "v"}),
        &long,
    );
}

#[test]
fn a_refused_header_value_is_not_repeated() {
    let tool =
        json!([{"kind": "mcp", "name": "f", "url": "https://h", "headers": {"a": "secret\n"}}]);
    let issue = only(validate::create_run(&run_with_tools(tool)));
    assert!(!issue.message.contains("secret"), "{issue:?}");
}

#[test]
fn urls_are_http_with_a_host() {
    let good = [
        "http://h",
        "https://h/",
        "HTTPS://h.example:8443/a?b#c",
        "http://127.0.0.1:0",
        "http://[::1]:9000/mcp",
        "https://h?x=http://y@z",
        "http://h:65535",
    ];
    let bad = [
        "",
        "h",
        "/mcp",
        "ftp://h",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "http://:80",
        "http://h:",
        "http://h:x",
        "http://h:65536",
        "http://h:+1",
        "http://[::1",
        "http://[h]",
        "http://[::1]x",
        "http://u:p@h",
        "http://h/a b",
        "http://h\\@evil",
        "http://h/\n",
        "javascript:alert(1)",
    ];
    for (base, key) in [(mcp(), "url"), (a2a(), "agentCardUrl")] {
        for url in good {
            for wrong in bad {
                bounds(&base, key, json!(url), json!(wrong), key);
            }
        }
        let long = |bytes: usize| json!(format!("http://h/{}", "x".repeat(bytes - 9)));
        bounds(
            &base,
            key,
            long(limits::URL_MAX_BYTES),
            long(limits::URL_MAX_BYTES + 1),
            key,
        );
        bounds(&base, key, json!("http://h"), json!(null), key);
    }
}

#[test]
fn the_rest_of_remote_tools_has_limits() {
    bounds(
        &a2a(),
        "contextId",
        json!("c".repeat(1024)),
        json!("c".repeat(1025)),
        "contextId",
    );
    bounds(
        &mcp(),
        "toolFilter",
        json!(vec!["t"; 512]),
        json!(vec!["t"; 513]),
        "toolFilter",
    );
    bounds(
        &mcp(),
        "toolFilter",
        json!(["any-name/1"]),
        json!(["a", 1]),
        "toolFilter[1]",
    );
    bounds(
        &mcp(),
        "toolFilter",
        json!(["t".repeat(256)]),
        json!(["t".repeat(257)]),
        "toolFilter[0]",
    );
}
