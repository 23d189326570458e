//! The engine: language features, exceptions, resource exhaustion, escapes.

use serde_json::json;

use std::collections::VecDeque;
use std::io;

use super::engine::{CONSOLE_BYTES, ParentLink, run};
use crate::code::wire::{CodeEnd, CodeJob, FetchRequest, FetchResponse, FetchResult};

/// Answers every request with the request itself.
#[derive(Default)]
struct Echo(VecDeque<FetchRequest>);

impl ParentLink for Echo {
    fn request(&mut self, request: FetchRequest) -> io::Result<()> {
        self.0.push_back(request);
        Ok(())
    }

    fn response(&mut self) -> io::Result<FetchResponse> {
        // The last one first, because responses may come in any order.
        let fetch = self.0.pop_back().ok_or(io::ErrorKind::UnexpectedEof)?;
        let result = if fetch.url.contains("fail") {
            FetchResult::Failed {
                error: "refused".to_owned(),
            }
        } else {
            FetchResult::Response {
                status: 200,
                url: fetch.url.clone(),
                headers: [("x-a".to_owned(), "1".to_owned())].into(),
                body: json!({"url": fetch.url, "method": fetch.method, "headers": fetch.headers, "body": fetch.body})
                    .to_string(),
            }
        };
        Ok(FetchResponse {
            id: fetch.id,
            result,
        })
    }
}

fn job(source: &str) -> CodeJob {
    CodeJob {
        source: source.to_owned(),
        arguments: json!({"city": "Oslo \u{1f4a5}", "n": 2, "__proto__": {"x": 1}}),
        tool_use_id: "tu_1".to_owned(),
        secrets: [("KEY".to_owned(), "s3cret".to_owned())].into(),
        timeout_ms: 60_000,
        memory_mb: 16,
        max_output_bytes: 1000,
        allow_fetch: true,
    }
}

fn end(source: &str) -> CodeEnd {
    run(&job(source), &mut Echo::default()).end
}

fn text(source: &str) -> String {
    match end(source) {
        CodeEnd::Result {
            text,
            omitted_bytes: 0,
        } => text,
        other => panic!("{source}: {other:?}"),
    }
}

fn exception(source: &str) -> (String, Option<u32>) {
    match end(source) {
        CodeEnd::Exception { message, line } => (message, line),
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn returns_data() {
    for (source, expected) in [
        ("return args.city", "Oslo \u{1f4a5}"),
        (
            "return {n: args.n + 1, id: ctx.toolUseId}",
            r#"{"n":3,"id":"tu_1"}"#,
        ),
        ("return ctx.secrets.KEY.length", "6"),
        ("", ""),
        ("return null", "null"),
        ("return [1, undefined, () => 1]", "[1,null,null]"),
        ("return await Promise.resolve(7)", "7"),
        ("return new Date(0)", "\"1970-01-01T00:00:00.000Z\""),
        ("return '\\ud800'", "\u{fffd}"),
        ("export default function (args) { return args.n }", "2"),
        (
            "const add = (a) => a + 1;\nexport default async (args) => add(args.n);",
            "3",
        ),
        (
            "const x = await Promise.resolve(5);\nexport default () => x;",
            "5",
        ),
        ("return 'what do you export?'", "what do you export?"),
        ("// a comment at the end\nreturn 1 // here", "1"),
        (
            "return Object.getPrototypeOf(args) === Object.prototype && args.x === undefined",
            "true",
        ),
    ] {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn exceptions_have_a_message_and_a_line() {
    for (source, message, line) in [
        ("\n\nthrow new Error('no luck')", "Error: no luck", Some(3)),
        (
            "return nothing.here",
            "ReferenceError: nothing is not defined",
            Some(1),
        ),
        (
            "\nawait null;\nnull.x",
            "TypeError: cannot read property 'x' of null",
            Some(3),
        ),
        (
            "export default () => {\n throw new RangeError('far') }",
            "RangeError: far",
            Some(2),
        ),
        ("throw {code: 7}", "it threw {\"code\":7}", None),
        ("throw undefined", "it threw undefined", None),
        (
            "return 1n",
            "TypeError: BigInt are forbidden in JSON.stringify",
            None,
        ),
        (
            "return () => 1",
            "TypeError: the result is a function, which is not data",
            None,
        ),
        ("export const a = 1", "TypeError: not a function", None),
    ] {
        let (said, at) = exception(source);
        assert_eq!(said, message, "{source}");
        assert!(line.is_none() || at == line, "{source}: {at:?}");
    }
    let (said, at) = exception("\nreturn (");
    assert!(said.starts_with("SyntaxError: "), "{said}");
    assert!(at.is_some(), "{said}");
}

#[test]
fn has_no_access_to_the_system() {
    for name in [
        "require",
        "process",
        "std",
        "os",
        "Deno",
        "Bun",
        "XMLHttpRequest",
        "Worker",
        "WebAssembly",
        "setTimeout",
    ] {
        let source = format!("return typeof {name} + typeof Function('return this')().{name}");
        assert_eq!(text(&source), "undefinedundefined", "{name}");
    }
    for source in [
        "import fs from 'fs';\nexport default () => 1",
        "import * as std from 'std';\nexport default () => 1",
        "export * from '/etc/passwd'; export default () => 1",
        "await import('os')",
        "await import('/etc/passwd')",
        "await import('data:text/javascript,export default 1')",
    ] {
        let (said, _) = exception(source);
        assert!(
            said.contains("could not load") || said.contains("module"),
            "{source}: {said}"
        );
    }
}

#[test]
fn ends_endless_and_huge_code() {
    let never = CodeEnd::NeverSettles;
    for source in [
        "for (;;);",
        "while (true) { try { for (;;); } catch {} finally { continue } }",
        "return /(a+)+$/.test('a'.repeat(40) + 'b')",
        "const f = () => Promise.resolve().then(f); await f()",
        "(function f() { queueMicrotask?.(f); Promise.resolve().then(f) })(); await new Promise(() => {})",
        "return {get a() { for (;;); }}",
        "return {toJSON() { for (;;); }}",
        "throw {toString() { for (;;); }, toJSON() { for (;;); }}",
        "const e = new Error('x'); Object.defineProperty(e, 'message', {get() { for (;;); }}); throw e",
        "await {then() { for (;;); }}",
        "for (;;) await null",
        "export default (() => { for (;;); })()",
    ] {
        let mut short = job(source);
        // Short, so that a chain of promises does not exhaust the memory first.
        short.timeout_ms = 25;
        let done = run(&short, &mut Echo::default());
        assert_eq!(done.end, CodeEnd::OutOfTime, "{source}");
    }
    for source in [
        "await new Promise(() => {})",
        "export default () => new Promise(() => {})",
        "await {then() {}}",
    ] {
        assert_eq!(end(source), never, "{source}");
    }
    for source in [
        "const a = []; for (;;) a.push(new Array(1000).fill(1))",
        "let s = 'x'; for (;;) s += s + s.slice(1).toUpperCase()",
        "return new Uint8Array(1 << 30).length",
        "return 'x'.repeat(1 << 29).split('')",
        "return JSON.stringify('\\u0000'.repeat(1 << 22)).length",
    ] {
        assert!(
            matches!(
                end(source),
                CodeEnd::OutOfMemory | CodeEnd::Exception { .. }
            ),
            "{source}: {:?}",
            end(source)
        );
    }
}

#[test]
fn recursion_and_hostile_objects_become_exceptions() {
    for (source, word) in [
        ("const f = () => f() + 1; return f()", "stack"),
        (
            "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a",
            "stack",
        ),
        ("return eval('('.repeat(1e5))", "stack"),
        ("return JSON.parse('['.repeat(1e5))", "stack"),
        ("const a = {}; a.a = a; return a", "circular"),
        (
            "return {get a() { throw new Error('from a getter') }}",
            "from a getter",
        ),
        (
            "return new Proxy({}, {ownKeys() { throw new Error('from a proxy') }})",
            "from a proxy",
        ),
        (
            "JSON.stringify = () => { throw 1 }; Object.prototype.toJSON = () => { throw new Error('mine') }; return {}",
            "mine",
        ),
        (
            "throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 1 }})",
            "cannot be shown",
        ),
    ] {
        let (said, _) = exception(source);
        assert!(said.contains(word), "{source}: {said}");
    }
}

#[test]
fn truncates_long_results_and_console_output() {
    let done = run(
        &job(
            "for (let i = 0; i < 1e4; i++) console.log('line', i, {a: [1]}); return 'ä'.repeat(1000)",
        ),
        &mut Echo::default(),
    );
    let CodeEnd::Result {
        text,
        omitted_bytes,
    } = done.end
    else {
        panic!("{:?}", done.end);
    };
    assert_eq!((text.len(), omitted_bytes), (1000, 1000));
    assert!(
        done.console.starts_with("line 0 {\"a\":[1]}\nline 1"),
        "{}",
        done.console
    );
    assert!(done.console.len() <= CONSOLE_BYTES);
}

#[test]
fn parent_serves_concurrent_requests_in_any_order() {
    let source = "const [a, b] = await Promise.all([fetch('http://a/'), fetch('http://b/', {method: 'post', headers: {X: 1}, body: '{}'})]);\n\
        return [a.ok, a.status, a.headers.get('X-A'), (await a.json()).url, (await b.json()).method, JSON.parse(await b.text()).headers]";
    assert_eq!(
        text(source),
        r#"[true,200,"1","http://a/","post",{"X":"1"}]"#
    );
    let (said, _) = exception("await fetch('http://fail/')");
    assert_eq!(said, "TypeError: fetch failed: refused");
    let (said, _) = exception("await fetch('http://a/', {body: {}})");
    assert!(said.contains("JSON.stringify"), "{said}");
    let mut forbidden = job("await fetch('http://a/')");
    forbidden.allow_fetch = false;
    let done = run(&forbidden, &mut Echo::default());
    assert!(
        matches!(&done.end, CodeEnd::Exception { message, .. } if message.contains("allowFetch")),
        "{:?}",
        done.end
    );
}
