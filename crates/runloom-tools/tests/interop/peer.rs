//! Starts real peers and calls them as a run does.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runloom_ports::error::Result;
use runloom_ports::secret::Secret;
use runloom_ports::tasks::Tasks;
use runloom_ports::tools::{
    Invocation, Outcome, PluginManifest, ServerTool, ToolContext, ToolDefinition, ToolDefinitions,
    ToolHost, Toolset, ToolsetDefinition,
};
use runloom_protocol::id::RunId;
use runloom_protocol::tools::ToolRef;
use runloom_tools::outbound::{Outbound, OutboundPolicy};
use runloom_tools::{Host, HostParts, PluginSet, SandboxProgram, ToolLimits};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Timeout of a peer's start; slow machines import large packages slowly.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The folder with the prepared environments.
pub(crate) fn prepared() -> PathBuf {
    let folder = std::env::var_os("RUNLOOM_INTEROP_TOOLS");
    PathBuf::from(folder.expect(
        "RUNLOOM_INTEROP_TOOLS is not set: run `cargo xtask test --only interop-tools`, which prepares the peers",
    ))
}

/// A package's program in the Node environment.
pub(crate) fn node_program(name: &str) -> PathBuf {
    let programs = prepared().join("node-tools/node_modules/.bin");
    programs.join(name)
}

fn scripts() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../interop/tools")
}

/// A running peer; killed when it is dropped.
pub(crate) struct Peer {
    pub(crate) url: String,
    child: Child,
    lines: Mutex<Receiver<String>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// A script of `interop/tools` in one of the Python environments.
    pub(crate) fn python(environment: &str, script: &str, argument: &str) -> Self {
        Self::python_at("0", environment, script, argument)
    }

    /// [`Self::python`] on a given port, for restarts.
    pub(crate) fn python_at(port: &str, environment: &str, script: &str, argument: &str) -> Self {
        let python = prepared().join(format!("venv-{environment}/bin/python"));
        let mut command = Command::new(python);
        command
            .arg(scripts().join(script))
            .arg(argument)
            .env("PORT", port)
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let mut peer = Self::start(&mut command, String::new());
        let line = peer.line_with("listening on ");
        peer.url = line["listening on ".len()..].trim().to_owned();
        peer
    }

    /// A package's program in the Node environment, with its port in `PORT`.
    pub(crate) fn node(program: &str, argument: &str) -> Self {
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let mut command = Command::new(node_program(program));
        command.arg(argument).env("PORT", port.to_string());
        let peer = Self::start(&mut command, format!("http://127.0.0.1:{port}"));
        peer.line_with("listening on port");
        peer
    }

    fn start(command: &mut Command, url: String) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (sender, lines) = sync_channel(1024);
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    eprintln!("peer: {line}");
                    let _ = sender.try_send(line);
                }
            });
        }
        Self {
            url,
            child,
            lines: Mutex::new(lines),
        }
    }

    /// Waits for a line that contains a text.
    pub(crate) fn line_with(&self, words: &str) -> String {
        let lines = self.lines.lock().unwrap();
        loop {
            let line = lines
                .recv_timeout(START_TIMEOUT)
                .unwrap_or_else(|_| panic!("the peer never said {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }
}

/// A tool host that may connect to loopback.
pub(crate) struct TestBed {
    host: Host,
    tasks: Tasks,
}

/// A workspace with at most one toolset and no other definition.
#[derive(Default)]
struct OneToolset(Option<Toolset>);

#[async_trait::async_trait]
impl ToolDefinitions for OneToolset {
    async fn tool(&self, _: &str, _: &str) -> Result<Option<ToolDefinition>> {
        Ok(None)
    }

    async fn plugins(&self, _: &str) -> Result<Vec<PluginManifest>> {
        Ok(Vec::new())
    }

    async fn toolset(&self, _: &str, _: &str) -> Result<Option<Toolset>> {
        Ok(self.0.clone())
    }

    async fn secret(&self, _: &str, _: &str) -> Result<Option<Secret>> {
        Ok(None)
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        self.tasks.shutdown.drain();
    }
}

impl TestBed {
    pub(crate) fn new() -> Self {
        Self::with(PluginSet::default())
    }

    /// A host with configured plugins.
    pub(crate) fn with(plugins: PluginSet) -> Self {
        Self::serving(plugins, OneToolset::default())
    }

    /// A host with one toolset.
    pub(crate) fn with_toolset(slug: &str, definition: ToolsetDefinition) -> Self {
        let slug = slug.to_owned();
        let toolset = Toolset { slug, definition };
        Self::serving(PluginSet::default(), OneToolset(Some(toolset)))
    }

    fn serving(plugins: PluginSet, definitions: OneToolset) -> Self {
        let policy = OutboundPolicy {
            allow_private_networks: true,
            ..OutboundPolicy::default()
        };
        let limits = ToolLimits {
            resolve_timeout: Duration::from_secs(30),
            ..ToolLimits::default()
        };
        let tasks = Tasks::default();
        let parts = HostParts {
            project: None,
            outbound: Outbound::new(policy).unwrap(),
            definitions: Arc::new(definitions),
            plugins,
            memory: None,
            sandbox: Some(SandboxProgram {
                program: "/nonexistent".into(),
                arguments: Vec::new(),
            }),
            limits,
        };
        let host = Host::new(parts, &tasks);
        Self { host, tasks }
    }

    pub(crate) async fn resolve(&self, refs: &Value) -> (ToolContext, Vec<ServerTool>) {
        let refs: Vec<ToolRef> = serde_json::from_value(refs.clone()).unwrap();
        let context = ToolContext {
            session: None,
            project: None,
            workspace: "acme".into(),
            run: RunId::from_suffix(1),
            refs: Arc::new(refs.clone()),
        };
        let tools = self.host.resolve(&context, &refs).await;
        (context, tools)
    }

    pub(crate) async fn call(
        &self,
        context: &ToolContext,
        tool: &ServerTool,
        input: Value,
        cancel: CancellationToken,
    ) -> Outcome {
        let call = Invocation {
            tool_use_id: format!("tu_{}", input.to_string().len()),
            input,
            trace: None,
        };
        let calling = self.host.call(context, tool, call, cancel);
        tokio::time::timeout(Duration::from_secs(60), calling)
            .await
            .expect("every call ends")
    }
}
