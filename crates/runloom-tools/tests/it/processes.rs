//! MCP servers that are processes: shared, limited, started again, and gone at the end.

use std::path::Path;
use std::time::Duration;

use runloom_ports::effect::Effect;
use runloom_ports::tools::{Outcome, ServerTool, ToolContext};
use runloom_protocol::definition::{McpEndpoint, PluginManifest};
use runloom_protocol::validate::{PluginSource, plugin_manifest};
use runloom_tools::{ConfiguredPlugin, PluginSet, ToolLimits};
use serde_json::{Value, json};

use crate::peers::{Bed, Defined, open_policy};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stdio_server.py");

/// A plugin `@p` with one server `s`, which is the script with these habits.
fn plugin(habits: &[&str], env: Value) -> PluginManifest {
    plugin_within(30, habits, env)
}

/// [`plugin`] whose calls may take so many seconds.
fn plugin_within(seconds: u64, habits: &[&str], env: Value) -> PluginManifest {
    let mut args = vec![SCRIPT];
    args.extend(habits);
    let server = json!({"name": "s", "command": "python3", "args": args, "env": env, "timeoutMs": seconds * 1000});
    let body = json!({"servers": [server]});
    plugin_manifest(&body, "p", PluginSource::Operator).unwrap()
}

fn bed(manifest: PluginManifest, limits: ToolLimits) -> Bed {
    let defined = Defined {
        secrets: vec![("TOKEN".to_owned(), "canary-0815".to_owned())],
        configured: PluginSet {
            installed: vec![ConfiguredPlugin {
                manifest,
                workspaces: None,
            }],
            without: Vec::new(),
        },
        ..Defined::default()
    };
    Bed::defining(defined, open_policy(), limits)
}

fn patient() -> ToolLimits {
    ToolLimits {
        resolve_timeout: Duration::from_secs(60),
        ..ToolLimits::default()
    }
}

/// What `@p/name` exposes in a workspace.
async fn resolved(bed: &Bed, workspace: &str, name: &str) -> (ToolContext, Vec<ServerTool>) {
    let refs = json!([{"kind": "mantyx_plugin", "name": format!("@p/{name}")}]);
    bed.resolve_in(workspace, &refs).await
}

async fn call(bed: &Bed, workspace: &str, name: &str, input: Value) -> Outcome {
    let (context, tools) = resolved(bed, workspace, name).await;
    assert_eq!(tools.len(), 1, "{tools:?}");
    bed.call(&context, &tools[0], input).await
}

/// Waits until no process has this number.
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
async fn a_process_is_shared_by_the_runs_of_a_workspace_and_by_no_other() {
    let bed = bed(plugin(&[], json!({})), patient());
    let first = call(&bed, "acme", "pid", json!({})).await;
    assert!(!first.is_error, "{first:?}");
    let again = call(&bed, "acme", "pid", json!({})).await;
    assert_eq!(first.content, again.content);
    let other = call(&bed, "rival", "pid", json!({})).await;
    assert_ne!(first.content, other.content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_tool_or_all_tools_of_a_process_are_exposed() {
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
            "s_heard",
            "s_refuse"
        ]
    );
    let echoed = bed.call(&context, &all[0], json!({"text": "hello"})).await;
    assert_eq!(echoed.content, "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_is_limited_and_secrets_do_not_come_back() {
    let env = json!({"MY_TOKEN": "Bearer {{secret:TOKEN}}", "MODE": "test"});
    let bed = bed(plugin(&[], env), patient());
    let said = call(&bed, "acme", "environment", json!({})).await;
    assert!(!said.content.contains("canary-0815"), "{said:?}");
    let seen: Value = serde_json::from_str(&said.content).unwrap();
    assert_eq!(seen["MY_TOKEN"], "Bearer ***");
    assert_eq!(seen["MODE"], "test");
    // Cargo sets this one for every test; it must not be passed on.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(seen.get("CARGO_MANIFEST_DIR").is_none(), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_missing_is_said_and_nothing_is_started() {
    let bed = bed(plugin(&[], json!({"X": "{{secret:GONE}}"})), patient());
    let said = call(&bed, "acme", "pid", json!({})).await;
    assert!(said.is_error && said.content.contains("`GONE`"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_died_is_started_again() {
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
async fn a_process_that_hangs_is_ended_and_started_again() {
    // Long enough for an answer on a busy machine: a process that is slower is ended like one that hangs.
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
    // The process is asked in the background whether it lives: a call that is quicker than this is not answered either, and the
    // one after it waits for the verdict.
    let mut second = bed.call(&context, tool("s_pid"), json!({})).await;
    if second.is_error {
        second = bed.call(&context, tool("s_pid"), json!({})).await;
    }
    assert!(!second.is_error, "{second:?}");
    assert_ne!(first.content, second.content);
    gone(&first.content).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_hangs_is_ended_however_often_it_is_called() {
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
    // Callers that never leave it alone: each calls again as soon as it was answered or given up.
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
async fn a_process_whose_tool_is_slow_is_kept() {
    let limits = ToolLimits {
        process_answer: Duration::from_secs(2),
        ..patient()
    };
    // Longer than what raises a doubt, which in turn is long enough for an answer on a busy machine.
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
async fn a_process_that_does_one_thing_after_the_other_is_kept_while_it_works() {
    let limits = ToolLimits {
        process_answer: Duration::from_secs(2),
        ..patient()
    };
    let bed = bed(plugin_within(2, &["serial"], json!({})), limits);
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let first = bed.call(&context, tool("s_pid"), json!({})).await;
    // More than it can do before the last are given up; it goes on with those, and comes to the question after them.
    let naps = (0..10).map(|_| bed.call(&context, tool("s_nap"), json!({})));
    let naps = futures_util::future::join_all(naps).await;
    assert!(naps.iter().any(|nap| nap.is_error), "{naps:?}");
    let mut second = bed.call(&context, tool("s_pid"), json!({})).await;
    if second.is_error {
        // It was still at work for nobody.
        second = bed.call(&context, tool("s_pid"), json!({})).await;
    }
    assert_eq!(first.content, second.content);
}

/// How often the process heard of a tool, or of another method than calls.
async fn heard(bed: &Bed, context: &ToolContext, tool: &ServerTool, of: &str) -> u64 {
    let said = bed.call(context, tool, json!({})).await;
    let counts: Value = serde_json::from_str(&said.content).unwrap();
    counts[of].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_is_called_off_at_the_process() {
    let bed = bed(plugin(&[], json!({})), patient());
    let (context, tools) = resolved(&bed, "acme", "s").await;
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    let mut stalled = Box::pin(bed.call(&context, tool("s_stall"), json!({})));
    // The call is under way when it is dropped: the process has heard of it.
    let under_way = async {
        while heard(&bed, &context, tool("s_heard"), "stall").await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        said = &mut stalled => panic!("{said:?}"),
        () = under_way => {}
    }
    drop(stalled);
    let told = async {
        while heard(&bed, &context, tool("s_heard"), "notifications/cancelled").await == 0 {
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await;
    assert!(told.is_ok(), "the process was not told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_refuses_is_not_doubted() {
    let limits = ToolLimits {
        // Whatever takes any time at all would raise a doubt.
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
    assert_eq!(heard(&bed, &context, tool("s_heard"), "ping").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_cannot_start_is_left_alone_for_a_while() {
    let notes = std::env::temp_dir().join(format!("runloom-starts-{}", std::process::id()));
    let bed = bed(
        plugin(&["note-start", notes.to_str().unwrap(), "exit"], json!({})),
        patient(),
    );
    // Each failure doubles the pause, so that one of the calls falls into it however slow the machine is.
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
    assert!(paused.content.contains("tried again later"), "{paused:?}");
    let starts = std::fs::read_to_string(&notes).unwrap();
    std::fs::remove_file(&notes).unwrap();
    assert!(starts.lines().count() <= 2 * calls, "{starts}");
    let (_, all) = resolved(&bed, "acme", "s").await;
    assert_eq!(all[0].name, "s_unavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_not_there_is_said() {
    let body = json!({"servers": [{"name": "s", "command": "no-such-program-anywhere"}]});
    let manifest = plugin_manifest(&body, "p", PluginSource::Operator).unwrap();
    let bed = bed(manifest, patient());
    let said = call(&bed, "acme", "pid", json!({})).await;
    assert!(said.content.contains("cannot be started"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_launcher_started_ends_with_the_server() {
    for habit in ["", "stubborn"] {
        // The shell stays between us and the script: killing it alone would leave the script behind.
        let line = format!("python3 {SCRIPT} {habit}; true");
        let body = json!({"servers": [{"name": "s", "command": "sh", "args": ["-c", line]}]});
        let manifest = plugin_manifest(&body, "p", PluginSource::Operator).unwrap();
        let bed = bed(manifest, patient());
        let pid = call(&bed, "acme", "pid", json!({})).await;
        assert!(!pid.is_error, "{pid:?}");
        bed.tasks.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(60), bed.tasks.ended());
        assert!(ended.await.is_ok(), "the tasks end in bounded time");
        gone(&pid.content).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_are_bounded() {
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
async fn a_flood_on_standard_error_holds_nothing_up() {
    let bed = bed(plugin(&["noisy"], json!({})), patient());
    let said = call(&bed, "acme", "echo", json!({"text": "still here"})).await;
    assert_eq!(said.content, "still here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugins_own_program_is_found_in_its_folder() {
    let body = json!({"servers": [{"name": "s", "command": "./stdio_server.py"}]});
    let mut manifest = plugin_manifest(&body, "p", PluginSource::Operator).unwrap();
    let folder = Path::new(SCRIPT).parent().unwrap();
    let McpEndpoint::Process(process) = &mut manifest.servers[0].endpoint else {
        panic!("{manifest:?}");
    };
    process.folder = Some(folder.to_owned());
    // The script is not executable: that the attempt was made in the folder shows in the refusal.
    let bed = bed(manifest, patient());
    let said = call(&bed, "acme", "folder", json!({})).await;
    assert!(said.content.contains("ermission denied"), "{said:?}");
    let body =
        json!({"servers": [{"name": "s", "command": "python3", "args": ["./stdio_server.py"]}]});
    let mut manifest = plugin_manifest(&body, "p", PluginSource::Operator).unwrap();
    let McpEndpoint::Process(process) = &mut manifest.servers[0].endpoint else {
        panic!("{manifest:?}");
    };
    process.folder = Some(folder.to_owned());
    let bed = self::bed(manifest, patient());
    let said = call(&bed, "acme", "folder", json!({})).await;
    assert_eq!(Path::new(&said.content), folder);
}
