//! The processes of the server: any number of APIs and workers, each behind links of its own, killed and started again.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use tokio::runtime::Runtime;

use crate::gate::{Gate, Pace};
use crate::http::Api;
use crate::server::{Server, Settings, runloom};

/// How long clients look at an empty list before they look up.
const MOMENT: Duration = Duration::from_millis(200);

/// The one workspace and its key.
const WORKSPACE: &str = "acme";
const KEY: &str = "mantyx_0123456789abcdef0123456789abcdef";

/// Which APIs live now.
#[derive(Default)]
pub(crate) struct Directory {
    apis: Mutex<Vec<(String, Api)>>,
    changed: Condvar,
}

impl Directory {
    /// Those that live. Waits a moment for one when there is none.
    pub(crate) fn apis(&self) -> Vec<Api> {
        let apis = self.apis.lock().unwrap();
        let waiting = |apis: &mut Vec<_>| apis.is_empty();
        let waited = self.changed.wait_timeout_while(apis, MOMENT, waiting);
        let (apis, _) = waited.unwrap();
        apis.iter().map(|(_, api)| api.clone()).collect()
    }

    fn enter(&self, name: &str, api: Api) {
        self.apis.lock().unwrap().push((name.to_owned(), api));
        self.changed.notify_all();
    }

    fn leave(&self, name: &str) {
        self.apis.lock().unwrap().retain(|(known, _)| known != name);
    }
}

/// Where everything is that a process needs.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    pub(crate) store: String,
    /// An address, or a word such as `store`.
    pub(crate) queue: String,
    pub(crate) bus: String,
    /// Host and port of the model and the tools.
    pub(crate) peers: String,
}

/// A process's links: PostgreSQL, RabbitMQ, Valkey.
pub(crate) struct Links(Vec<(&'static str, Gate)>);

impl Links {
    async fn to(addresses: &Addresses) -> Self {
        let mut links = Vec::new();
        for (name, url) in [
            ("postgres", &addresses.store),
            ("rabbitmq", &addresses.queue),
            ("valkey", &addresses.bus),
        ] {
            if url.contains("://") {
                links.push((name, Gate::to(crate::authority(url)).await));
            }
        }
        Self(links)
    }

    fn through(&self, name: &str, url: &str) -> String {
        let gate = self.0.iter().find(|(known, _)| *known == name);
        gate.map_or_else(|| url.to_owned(), |(_, gate)| gate.url(url))
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    pub(crate) fn named(&self, name: &str) -> &Gate {
        let gate = self.0.iter().find(|(known, _)| *known == name);
        &gate.expect("a link of this topology").1
    }

    fn heal(&self) {
        for (_, gate) in &self.0 {
            gate.open();
            gate.pace(Pace::Free);
        }
    }
}

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Api,
    Worker,
    All,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::All => "all",
        }
    }
}

/// One process, and those that come after it under the same name.
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) links: Links,
    addresses: Addresses,
    folder: PathBuf,
    settings: Settings,
    directory: Arc<Directory>,
    generation: u64,
    server: Option<Server>,
}

/// A process that died without being asked, and when.
#[derive(Debug, Clone)]
pub(crate) struct Death {
    pub(crate) process: String,
    pub(crate) at: SystemTime,
}

impl Replica {
    pub(crate) fn new(
        (name, role): (String, Role),
        addresses: &Addresses,
        folder: &Path,
        settings: &Settings,
        (directory, runtime): (&Arc<Directory>, &Runtime),
    ) -> Self {
        let replica = Self {
            links: runtime.block_on(Links::to(addresses)),
            addresses: addresses.clone(),
            folder: folder.to_owned(),
            settings: settings.clone(),
            directory: Arc::clone(directory),
            generation: 0,
            server: None,
            name,
            role,
        };
        std::fs::write(replica.file(), replica.configuration()).unwrap();
        replica
    }

    /// The name of the process that runs now, as the database sees it.
    pub(crate) fn process(&self) -> String {
        format!("{}.{}", self.name, self.generation)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Starts the next process; it can be asked when this returns.
    pub(crate) fn start(&mut self) {
        self.links.heal();
        self.generation += 1;
        let file = self.file().display().to_string();
        let mut command = runloom(&["serve", "--config", &file, "--listen", "127.0.0.1:0"]);
        let store = self.links.through("postgres", &self.addresses.store);
        let store = if store.starts_with("postgres:") {
            format!("{store}?application_name={}", self.process())
        } else {
            store
        };
        command
            .args(["--role", self.role.word()])
            .env("RUNLOOM_MASTER_KEY", "a master key for every replica")
            .env("ACME_KEY", KEY)
            .env("RUNLOOM_STORE__URL", store)
            .env(
                "RUNLOOM_FABRIC__QUEUE",
                self.links.through("rabbitmq", &self.addresses.queue),
            )
            .env(
                "RUNLOOM_FABRIC__BUS",
                self.links.through("valkey", &self.addresses.bus),
            )
            .envs(self.settings.iter().cloned());
        let mut server = Server::spawn(command, &self.folder);
        let line = server.line();
        let address = line.strip_prefix("listening on http://");
        server.address = address.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        if self.role != Role::Worker {
            self.directory.enter(&self.name, api(&server.address));
        }
        self.server = Some(server);
    }

    /// Kills it as the kernel would.
    pub(crate) fn kill(&mut self) -> Death {
        self.directory.leave(&self.name);
        let death = Death {
            process: self.process(),
            at: SystemTime::now(),
        };
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
        self.links.heal();
        death
    }

    /// Asks it to stop; it must do so in order.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        let mut server = self.server.take()?;
        server.signal("TERM");
        let status = server.ended();
        self.directory.leave(&self.name);
        assert!(
            status.success(),
            "{} {status}: {}",
            self.name,
            server.said()
        );
        Some(status)
    }

    pub(crate) fn signal(&self, name: &str) {
        if let Some(server) = &self.server {
            server.signal(name);
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.name))
    }

    fn configuration(&self) -> String {
        let (name, peers) = (&self.name, &self.addresses.peers);
        format!(
            "[runs]\npark_after_ms = 300\ndrain_ms = 1500\nlocal_tool_timeout_ms = 600000\n\
             [limits]\nrun_starts_per_minute = 1000000\nlifecycle_per_minute = 1000000\nwrites_per_minute = 1000000\n\
             reads_per_minute = 1000000\n\
             [log]\nlevel = \"warn\"\n\
             [outbound]\nallow_hosts = [\"{peers}\"]\n\
             [[workspaces]]\nslug = \"{WORKSPACE}\"\n\
             [[workspaces.api_keys]]\nname = \"ci\"\nkey_env = \"ACME_KEY\"\n\
             [[workspaces.providers]]\nid = \"scripted\"\nkind = \"openai-compatible\"\n\
             base_url = \"http://{peers}/model/{name}\"\nmodels = [ {{ id = \"scripted\" }} ]\n"
        )
    }
}

fn api(address: &str) -> Api {
    Api {
        address: address.to_owned(),
        workspace: WORKSPACE.to_owned(),
        key: KEY.to_owned(),
    }
}
