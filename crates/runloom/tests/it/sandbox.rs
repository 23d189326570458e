//! Code tools in real child processes of the real program: what they can do, and that nothing they do gets out or
//! goes on.
#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use runloom_ports::effect::Effect;
use runloom_ports::error::Result;
use runloom_ports::secret::Secret;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{
    Invocation, Outcome, PluginManifest, ServerTool, ToolContext, ToolDefinition, ToolDefinitions,
    ToolHost as _, Toolset,
};
use runloom_protocol::id::RunId;
use runloom_protocol::validate;
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{Host, HostParts, PluginSet, SandboxProgram, ToolLimits};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const CANARY: &str = "canary-e1d5";

struct One(ToolDefinition);

#[async_trait]
impl ToolDefinitions for One {
    async fn tool(&self, _: &str, _: &str) -> Result<Option<ToolDefinition>> {
        Ok(Some(self.0.clone()))
    }

    async fn plugins(&self, _: &str) -> Result<Vec<PluginManifest>> {
        Ok(Vec::new())
    }

    async fn toolset(&self, _: &str, _: &str) -> Result<Option<Toolset>> {
        Ok(None)
    }

    async fn secret(&self, _: &str, name: &str) -> Result<Option<Secret>> {
        Ok((name == "KEY").then(|| Secret::new(CANARY)))
    }
}

struct Bed {
    host: Host,
    context: ToolContext,
    tool: ServerTool,
}

impl Bed {
    async fn new(source: &str, more: Value) -> Self {
        let mut body = json!({"type": "code", "source": source});
        let fields = body.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let definition = validate::tool_definition(&body, "t").unwrap();
        let policy = OutboundPolicy {
            allow_hosts: vec!["127.0.0.1".to_owned()],
            ..OutboundPolicy::default()
        };
        let parts = HostParts {
            project: None,
            plugins: PluginSet::default(),
            memory: None,
            outbound: Outbound::new(policy).unwrap(),
            definitions: Arc::new(One(definition)),
            sandbox: Some(SandboxProgram {
                program: env!("CARGO_BIN_EXE_runloom").into(),
                arguments: vec!["sandbox".to_owned()],
            }),
            limits: ToolLimits::default(),
        };
        let host = Host::new(parts, &Tasks::default());
        let refs = serde_json::from_value(json!([{"kind": "mantyx", "id": "t"}])).unwrap();
        let context = ToolContext {
            session: None,
            project: None,
            workspace: "acme".into(),
            run: RunId::from_suffix(1),
            refs: Arc::new(refs),
        };
        let tool = host.resolve(&context, &context.refs).await.remove(0);
        Self {
            host,
            context,
            tool,
        }
    }

    async fn call(&self, input: Value, cancel: CancellationToken) -> Outcome {
        let call = Invocation {
            tool_use_id: "tu_1".to_owned(),
            input,
            trace: None,
        };
        let calling = self.host.call(&self.context, &self.tool, call, cancel);
        tokio::time::timeout(Duration::from_secs(60), calling)
            .await
            .unwrap()
    }
}

async fn run(source: &str, more: Value) -> Outcome {
    let bed = Bed::new(source, more).await;
    bed.call(json!({"city": "Oslo"}), CancellationToken::new())
        .await
}

/// Answers every request with what it was sent; ends with the test's process.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut request = vec![0; 64 * 1024];
            let read = stream.read(&mut request).unwrap_or(0);
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                text.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(text.as_bytes());
        }
    });
    url
}

#[tokio::test]
async fn returns_the_result_of_code() {
    let bed = Bed::new("return {hello: args.city, id: ctx.toolUseId}", json!({})).await;
    assert_eq!(bed.tool.effect, Effect::Read);
    for _ in 0..2 {
        let outcome = bed
            .call(json!({"city": "Oslo"}), CancellationToken::new())
            .await;
        assert_eq!(outcome.content, r#"{"hello":"Oslo","id":"tu_1"}"#);
        assert!(!outcome.is_error);
    }
    let outcome = run(
        "globalThis.kept = (globalThis.kept ?? 0) + 1; return kept",
        json!({}),
    )
    .await;
    assert_eq!(outcome.content, "1");
}

#[tokio::test]
async fn reports_failures_with_line_and_output() {
    let outcome = run(
        "console.log('at', args);\nthrow new Error('no luck')",
        json!({}),
    )
    .await;
    assert!(outcome.is_error);
    for word in ["Error: no luck (line 2)", "at {\"city\":\"Oslo\"}"] {
        assert!(outcome.content.contains(word), "{}", outcome.content);
    }
}

#[tokio::test]
async fn bombs_end_within_their_limits() {
    for (source, more, words) in [
        (
            "for (;;);",
            json!({"timeoutMs": 300}),
            &["did not end within 300ms"][..],
        ),
        // No clock interrupts this one: the process is killed.
        (
            "return new Array(1e9) + ''",
            json!({"timeoutMs": 300, "memoryMb": 512}),
            &["did not end within 300ms", "memory"],
        ),
        (
            "return /(a+)+$/.test('a'.repeat(50) + 'b')",
            json!({"timeoutMs": 300}),
            &["did not end within 300ms"],
        ),
        (
            "const f = () => Promise.resolve().then(f); await f()",
            json!({"timeoutMs": 300}),
            &["did not end within 300ms"],
        ),
        (
            "await new Promise(() => {})",
            json!({}),
            &["can never settle"],
        ),
        (
            "const a = []; for (;;) a.push('x'.repeat(1e6) + a.length)",
            json!({"memoryMb": 16}),
            &["memory limit of 16 MB"],
        ),
        (
            "return new Uint8Array(1 << 30).length",
            json!({}),
            &["memory"],
        ),
        ("const f = () => f() + 1; return f()", json!({}), &["stack"]),
    ] {
        let outcome = run(source, more).await;
        assert!(outcome.is_error, "{source}: {}", outcome.content);
        assert!(
            words.iter().any(|word| outcome.content.contains(word)),
            "{source}: {}",
            outcome.content
        );
    }
}

#[tokio::test]
async fn returns_output_before_a_timeout() {
    let outcome = run(
        "console.log('so far'); for (;;);",
        json!({"timeoutMs": 3000}),
    )
    .await;
    for word in ["did not end within 3s", "so far"] {
        assert!(outcome.content.contains(word), "{}", outcome.content);
    }
}

#[tokio::test]
async fn truncates_long_output() {
    let outcome = run("return 'x'.repeat(1e6)", json!({"maxOutputBytes": 1000})).await;
    assert!(!outcome.is_error);
    let expected = format!(
        "{}\n[truncated: 999000 more bytes were omitted; the tool's limit is 1000 bytes]",
        "x".repeat(1000)
    );
    assert_eq!(outcome.content, expected);
}

#[tokio::test]
async fn cancel_kills_the_child() {
    let bed = Bed::new("for (;;);", json!({"timeoutMs": 600_000})).await;
    let cancel = CancellationToken::new();
    let calling = bed.call(json!({}), cancel.clone());
    let me = std::process::id();
    let cancelling = async {
        until(|| !children(me).is_empty()).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert!(outcome.content.contains("cancelled"), "{}", outcome.content);
    until(|| children(me).is_empty()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn child_is_confined() {
    let bed = Bed::new("for (;;);", json!({"timeoutMs": 600_000, "memoryMb": 8})).await;
    let cancel = CancellationToken::new();
    let calling = bed.call(json!({}), cancel.clone());
    let looking = async {
        let of = |child: u32, file: &str| {
            std::fs::read_to_string(format!("/proc/{child}/{file}")).unwrap_or_default()
        };
        let me = std::process::id();
        // The last door that is closed.
        let closed = |child: &u32| of(*child, "status").contains("Seccomp:\t2");
        until(|| children(me).iter().any(closed)).await;
        let child = children(me)[0];
        let limits = of(child, "limits");
        for line in [
            "Max processes             0 ",
            "Max file size             0 ",
            "Max core file size        0 ",
        ] {
            assert!(limits.contains(line), "{limits}");
        }
        // Nobody but root may look into a process that cannot be dumped.
        let environment = of(child, "environ");
        let only = ["", "MIMALLOC_ARENA_RESERVE=0\0"];
        assert!(only.contains(&environment.as_str()), "{environment}");
        let space = limits
            .lines()
            .find(|line| line.starts_with("Max address space"));
        let space = space.and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
        // What the program has mapped to begin with, and little more.
        assert!(space.is_some_and(|bytes| bytes < 600 << 20), "{limits}");
        assert!(of(child, "status").contains("NoNewPrivs:\t1"));
        cancel.cancel();
    };
    let (_, ()) = tokio::join!(calling, looking);
}

#[tokio::test]
async fn requests_need_permission_and_policy() {
    let url = echo();
    let source = format!(
        "const answer = await fetch('{url}/a b', {{method: 'POST', headers: {{'X-Key': ctx.secrets.KEY}}, body: 'hello'}});\n\
         return answer.status + ' ' + await answer.text()"
    );
    let outcome = run(&source, json!({"allowFetch": true, "secrets": ["KEY"]})).await;
    assert!(!outcome.is_error, "{}", outcome.content);
    for word in ["200 POST /a%20b HTTP/1.1", "x-key: ***", "hello"] {
        assert!(outcome.content.contains(word), "{}", outcome.content);
    }
    assert!(!outcome.content.contains(CANARY), "{}", outcome.content);
    let outcome = run(&source, json!({"secrets": ["KEY"]})).await;
    assert!(
        outcome.is_error && outcome.content.contains("allowFetch"),
        "{}",
        outcome.content
    );
    for target in [
        "http://169.254.169.254/",
        "http://localhost:1/",
        "http://[::1]/",
        "file:///etc/passwd",
        "http://127.0.0.1.nip.invalid/",
    ] {
        let outcome = run(
            &format!("await fetch('{target}')"),
            json!({"allowFetch": true}),
        )
        .await;
        assert!(
            outcome.is_error && outcome.content.contains("fetch failed"),
            "{target}: {}",
            outcome.content
        );
    }
    let many = format!("for (let i = 0; i < 100; i++) await fetch('{url}/')");
    let outcome = run(&many, json!({"allowFetch": true})).await;
    assert!(
        outcome.is_error && outcome.content.contains("at most 64 requests"),
        "{}",
        outcome.content
    );
}

#[tokio::test]
async fn redacts_secrets_everywhere() {
    for source in [
        "return ctx.secrets",
        "return 'a' + ctx.secrets.KEY",
        "throw new Error(ctx.secrets.KEY)",
        "throw ctx.secrets",
        "console.log(ctx.secrets.KEY); throw 1",
        "console.log('x'.repeat(2040) + ctx.secrets.KEY); throw 1",
    ] {
        let outcome = run(source, json!({"secrets": ["KEY"]})).await;
        assert!(
            !outcome.content.contains("canary"),
            "{source}: {}",
            outcome.content
        );
        assert!(
            outcome.content.contains("***"),
            "{source}: {}",
            outcome.content
        );
    }
    let outcome = run("return ctx.secrets.KEY ?? 'none'", json!({})).await;
    assert_eq!(outcome.content, "none");
}

#[test]
fn doctor_checks_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let said = crate::program::stdout(&crate::program::ended(folder.path(), &["doctor", "--json"]));
    let report: Value = serde_json::from_str(&said).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let sandbox = findings
        .iter()
        .find(|finding| finding["check"] == "sandbox");
    assert_eq!(sandbox.unwrap()["verdict"], "ok", "{said}");
}

#[test]
fn refuses_the_sandbox_command_to_users() {
    let folder = tempfile::tempdir().unwrap();
    let help = crate::program::stdout(&crate::program::ended(folder.path(), &["--help"]));
    assert!(!help.contains("sandbox"), "{help}");
    let ended = crate::program::ended(folder.path(), &["sandbox", "8", "1"]);
    assert!(!ended.status.success());
    assert!(ended.stdout.is_empty());
}

/// Children of a process that are sandboxes and not yet gone.
fn children(parent: u32) -> Vec<u32> {
    let listed = std::process::Command::new("ps")
        .args(["-o", "pid=,stat=,args=", "--ppid", &parent.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let sandboxes = text
        .lines()
        .filter(|line| line.contains(" sandbox ") && !line.contains("<defunct>"));
    sandboxes
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect()
}

async fn until(mut happened: impl FnMut() -> bool) {
    let waiting = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting)
        .await
        .unwrap();
}
