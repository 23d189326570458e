//! MCP servers as processes: sharing, limits, restarts, termination.

use std::path::Path;
use std::time::Duration;

use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ServerTool, ToolContext};
use runloom_protocol::definition::{McpEndpoint, PluginManifest};
use runloom_protocol::validate::{DefinitionSource, plugin_manifest};
use runloom_tools::{ConfiguredPlugin, PluginSet, ToolLimits};
use serde_json::{Value, json};

use crate::peers::{TestBed, TestDefinitions, open_policy};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stdio_server.py");

/// A plugin `@p` with one server `s`, which runs the script with these options.
fn plugin(habits: &[&str], env: Value) -> PluginManifest {
    plugin_within(30, habits, env)
}

/// [`plugin`] with a timeout of calls in seconds.
fn plugin_within(seconds: u64, habits: &[&str], env: Value) -> PluginManifest {
    let mut args = vec![SCRIPT];
    args.extend(habits);
    let server = json!({"name": "s", "command": "python3", "args": args, "env": env, "timeoutMs": seconds * 1000});
    let body = json!({"servers": [server]});
    plugin_manifest(&body, "p", DefinitionSource::Operator).unwrap()
}

fn bed(manifest: PluginManifest, limits: ToolLimits) -> TestBed {
    let defined = TestDefinitions {
        secrets: vec![("TOKEN".to_owned(), "canary-0815".to_owned())],
        configured: PluginSet {
            installed: vec![ConfiguredPlugin {
                manifest,
                workspaces: None,
            }],
            without: Vec::new(),
        },
        ..TestDefinitions::default()
    };
    TestBed::defining(defined, open_policy(), limits)
}

fn patient() -> ToolLimits {
    ToolLimits {
        resolve_timeout: Duration::from_secs(60),
        ..ToolLimits::default()
    }
}

/// The tools of `@p/name` in a workspace.
async fn resolved(bed: &TestBed, workspace: &str, name: &str) -> (ToolContext, Vec<ServerTool>) {
    let refs = json!([{"kind": "mantyx_plugin", "name": format!("@p/{name}")}]);
    bed.resolve_in(workspace, &refs).await
}

async fn call(bed: &TestBed, workspace: &str, name: &str, input: Value) -> Outcome {
    let (context, tools) = resolved(bed, workspace, name).await;
    assert_eq!(tools.len(), 1, "{tools:?}");
    bed.call(&context, &tools[0], input).await
}

/// Waits until the process has ended.
async fn gone(pid: &str) {
    let place = Path::new("/proc").join(pid);
    let waiting = async {
        while place.exists() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "process {pid} is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_a_workspace_share_a_process() {
    let bed = bed(plugin(&[], json!({})), patient());
    let first = call(&bed, "acme", "pid", json!({})).await;
    assert!(!first.is_error, "{first:?}");
    let again = call(&bed, "acme", "pid", json!({})).await;
    assert_eq!(first.content, again.content);
    let other = call(&bed, "rival", "pid", json!({})).await;
    assert_ne!(first.content, other.content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exposes_one_tool_or_all_tools() {
    let bed = bed(plugin(&[], json!({})), patient());
    let (_, one) = resolved(&bed, "acme", "echo").await;
    assert_eq!(one[0].name, "echo");
    assert_eq!(one[0].description, "does echo");
    assert_eq!(one[0].effect, Effect::Read);
    assert_eq!(one[0].parameters["properties"]["text"]["type"], "string");
    let (context, all) = resolved(&bed, "acme", "s").await;
    let names: Vec<&str> = all.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "s_echo",
            "s_pid",
            "s_environment",
            "s_folder",
            "s_die",
            "s_linger",
            "s_hang",
            "s_stall",
            "s_nap",
            "s_received",
            "s_refuse"
        ]
    );
    let echoed = bed.call(&context, &all[0], json!({"text": "hello"})).await;
    assert_eq!(echoed.content, "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_the_environment_and_redacts_secrets() {
    let env = json!({"MY_TOKEN": "Bearer {{secret:TOKEN}}", "MODE": "test"});
    let bed = bed(plugin(&[], env), patient());
    let said = call(&bed, "acme", "environment", json!({})).await;
    assert!(!said.content.contains("canary-0815"), "{said:?}");
    let seen: Value = serde_json::from_str(&said.content).unwrap();
    assert_eq!(seen["MY_TOKEN"], "Bearer ***");
    assert_eq!(seen["MODE"], "test");
    // Cargo sets this variable for every test; it must not be passed on.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(seen.get("CARGO_MANIFEST_DIR").is_none(), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_secret_starts_no_process() {
    let bed = bed(plugin(&[], json!({"X": "{{secret:GONE}}"})), patient());
    let said = call(&bed, "acme", "pid", json!({})).await;
    assert!(said.is_error && said.content.contains("`GONE`"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_a_dead_process() {
    let bed = bed(plugin(&[], json!({})), patient());
    let first = call(&bed, "acme", "pid", json!({})).await;
    let died = call(&bed, "acme", "die", json!({})).await;
    assert!(died.is_error, "{died:?}");
    let second = call(&bed, "acme", "pid", json!({})).await;
    assert!(!second.is_error, "{second:?}");
    assert_ne!(first.content, second.content);
    gone(&first.content).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaces_a_hanging_process() {
    // Long enough for an answer on a busy machine; a slower process would be killed like a hanging one.
    let limits = ToolLimits {
        process_answer: Duration::from_millis(500),
        ..patient()
    };
    let bed = bed(plugin_within(4, &[], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let first = bed.call(&context, tool("s_pid"), json!({})).await;
    let hung = bed.call(&context, tool("s_hang"), json!({})).await;
    assert!(
        hung.is_error && hung.content.contains("did not end within"),
        "{hung:?}"
    );
    // The probe runs in the background. A call before its verdict may fail as well; the one after it waits for the
    // verdict.
    let mut second = bed.call(&context, tool("s_pid"), json!({})).await;
    if second.is_error {
        second = bed.call(&context, tool("s_pid"), json!({})).await;
    }
    assert!(!second.is_error, "{second:?}");
    assert_ne!(first.content, second.content);
    gone(&first.content).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaces_a_hanging_process_under_load() {
    let limits = ToolLimits {
        process_answer: Duration::from_millis(500),
        process_concurrency: 4,
        ..patient()
    };
    let bed = bed(plugin_within(4, &[], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let first = bed.call(&context, tool("s_pid"), json!({})).await;
    let hung = bed.call(&context, tool("s_hang"), json!({}));
    // Callers without a pause: each calls again as soon as its call ended.
    let caller = || async {
        for _ in 0..10 {
            let said = bed.call(&context, tool("s_pid"), json!({})).await;
            if !said.is_error && said.content != first.content {
                return true;
            }
        }
        false
    };
    let (hung, a, b, c) = tokio::join!(hung, caller(), caller(), caller());
    assert!(hung.is_error, "{hung:?}");
    assert!(a && b && c, "the process was not replaced");
    gone(&first.content).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_a_process_with_a_slow_tool() {
    let limits = ToolLimits {
        process_answer: Duration::from_secs(2),
        ..patient()
    };
    // Longer than the time before a probe, which is long enough for an answer on a busy machine.
    let bed = bed(plugin_within(3, &[], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let first = bed.call(&context, tool("s_pid"), json!({})).await;
    for _ in 0..2 {
        let slow = bed.call(&context, tool("s_stall"), json!({})).await;
        assert!(slow.is_error, "{slow:?}");
    }
    let second = bed.call(&context, tool("s_pid"), json!({})).await;
    assert_eq!(first.content, second.content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_a_sequential_process_while_it_works() {
    let limits = ToolLimits {
        process_answer: Duration::from_secs(2),
        ..patient()
    };
    let bed = bed(plugin_within(2, &["serial"], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let first = bed.call(&context, tool("s_pid"), json!({})).await;
    // More calls than it can answer in time. It works on all of them and answers the ping after them.
    let naps = (0..10).map(|_| bed.call(&context, tool("s_nap"), json!({})));
    let naps = futures_util::future::join_all(naps).await;
    assert!(naps.iter().any(|nap| nap.is_error), "{naps:?}");
    let mut second = bed.call(&context, tool("s_pid"), json!({})).await;
    if second.is_error {
        // It was still working on abandoned calls.
        second = bed.call(&context, tool("s_pid"), json!({})).await;
    }
    assert_eq!(first.content, second.content);
}

/// How often the process received calls of a tool, or another method.
async fn received(bed: &TestBed, context: &ToolContext, tool: &ServerTool, of: &str) -> u64 {
    let said = bed.call(context, tool, json!({})).await;
    let counts: Value = serde_json::from_str(&said.content).unwrap();
    counts[of].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_out_call_sends_a_cancellation() {
    let bed = bed(plugin(&[], json!({})), patient());
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let mut stalled = Box::pin(bed.call(&context, tool("s_stall"), json!({})));
    // The call is dropped after the process has received it.
    let under_way = async {
        while received(&bed, &context, tool("s_received"), "stall").await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        said = &mut stalled => panic!("{said:?}"),
        () = under_way => {}
    }
    drop(stalled);
    let told = async {
        while received(
            &bed,
            &context,
            tool("s_received"),
            "notifications/cancelled",
        )
        .await
            == 0
        {
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await;
    assert!(told.is_ok(), "the process was not told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_do_not_trigger_a_probe() {
    let limits = ToolLimits {
        // Any unanswered call would be probed.
        process_answer: Duration::ZERO,
        ..patient()
    };
    let bed = bed(plugin(&[], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    for _ in 0..20 {
        let said = bed.call(&context, tool("s_refuse"), json!({})).await;
        assert!(
            said.is_error && said.content.contains("not like that"),
            "{said:?}"
        );
    }
    assert_eq!(
        received(&bed, &context, tool("s_received"), "ping").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backs_off_after_repeated_start_failures() {
    let notes = std::env::temp_dir().join(format!("runloom-starts-{}", std::process::id()));
    let bed = bed(
        plugin(&["note-start", notes.to_str().unwrap(), "exit"], json!({})),
        patient(),
    );
    // Each failure doubles the pause, so that one of the calls falls into it even on a slow machine.
    let mut calls = 0;
    let paused = loop {
        calls += 1;
        let said = call(&bed, "acme", "pid", json!({})).await;
        assert!(said.is_error, "{said:?}");
        if said.content.contains("times in a row") {
            break said;
        }
        assert!(calls < 20, "{said:?}");
    };
    assert!(paused.content.contains("restarted later"), "{paused:?}");
    let starts = std::fs::read_to_string(&notes).unwrap();
    std::fs::remove_file(&notes).unwrap();
    assert!(starts.lines().count() <= 2 * calls, "{starts}");
    let (_, all) = resolved(&bed, "acme", "s").await;
    assert_eq!(all[0].name, "s_unavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_a_missing_program() {
    let body = json!({"servers": [{"name": "s", "command": "no-such-program-anywhere"}]});
    let manifest = plugin_manifest(&body, "p", DefinitionSource::Operator).unwrap();
    let bed = bed(manifest, patient());
    let said = call(&bed, "acme", "pid", json!({})).await;
    assert!(said.content.contains("cannot be started"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_child_processes_of_a_launcher() {
    for habit in ["", "stubborn"] {
        // The shell is the parent of the script: killing it alone would leave the script running.
        let line = format!("python3 {SCRIPT} {habit}; true");
        let body = json!({"servers": [{"name": "s", "command": "sh", "args": ["-c", line]}]});
        let manifest = plugin_manifest(&body, "p", DefinitionSource::Operator).unwrap();
        let bed = bed(manifest, patient());
        let pid = call(&bed, "acme", "pid", json!({})).await;
        assert!(!pid.is_error, "{pid:?}");
        bed.tasks.shutdown.drain();
        let ended = tokio::time::timeout(Duration::from_secs(60), bed.tasks.ended());
        assert!(ended.await.is_ok(), "the tasks end in bounded time");
        gone(&pid.content).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_concurrent_calls() {
    let limits = ToolLimits {
        process_concurrency: 2,
        ..patient()
    };
    let bed = bed(plugin(&[], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "linger").await;
    let calls = (0..8).map(|_| bed.call(&context, &tools[0], json!({})));
    for said in futures_util::future::join_all(calls).await {
        let most: u32 = said.content.parse().unwrap();
        assert!(most <= 2, "{most} at once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stderr_flood_does_not_block_calls() {
    let bed = bed(plugin(&["noisy"], json!({})), patient());
    let said = call(&bed, "acme", "echo", json!({"text": "still here"})).await;
    assert_eq!(said.content, "still here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_programs_relative_to_the_plugins_folder() {
    let body = json!({"servers": [{"name": "s", "command": "./stdio_server.py"}]});
    let mut manifest = plugin_manifest(&body, "p", DefinitionSource::Operator).unwrap();
    let folder = Path::new(SCRIPT).parent().unwrap();
    let McpEndpoint::Process(process) = &mut manifest.servers[0].endpoint else {
        panic!("{manifest:?}");
    };
    process.folder = Some(folder.to_owned());
    // The script is not executable, so the error shows that it was found in the folder.
    let bed = bed(manifest, patient());
    let said = call(&bed, "acme", "folder", json!({})).await;
    assert!(said.content.contains("ermission denied"), "{said:?}");
    let body =
        json!({"servers": [{"name": "s", "command": "python3", "args": ["./stdio_server.py"]}]});
    let mut manifest = plugin_manifest(&body, "p", DefinitionSource::Operator).unwrap();
    let McpEndpoint::Process(process) = &mut manifest.servers[0].endpoint else {
        panic!("{manifest:?}");
    };
    process.folder = Some(folder.to_owned());
    let bed = self::bed(manifest, patient());
    let said = call(&bed, "acme", "folder", json!({})).await;
    assert_eq!(Path::new(&said.content), folder);
}
