//! Everything of one test: services, peers, replicas, and the folder they live in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runloom_ports::tasks::Tasks;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::peers::Peers;
use crate::replicas::{Addresses, Death, Directory, Replica, Role};
use crate::server::Settings;
use crate::services::{Rabbit, Valkey};

/// Which services there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topology {
    /// PostgreSQL, RabbitMQ and Valkey.
    Full,
    /// PostgreSQL is queue and bus, too.
    PostgresAlone,
    /// The queue is a broker that never answers.
    NoBroker,
}

/// A running world. Fields are dropped in this order: processes before services before their folder.
pub(crate) struct Stage {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) valkey: Option<Valkey>,
    pub(crate) rabbit: Option<Rabbit>,
    pub(crate) postgres: Cluster,
    pub(crate) audit: Audit,
    pub(crate) peers: Peers,
    pub(crate) tools_url: String,
    pub(crate) directory: Arc<Directory>,
    pub(crate) deaths: Vec<Death>,
    pub(crate) begun: Instant,
    tasks: Tasks,
    pub(crate) runtime: Runtime,
    _folder: TempDir,
}

impl Stage {
    /// Starts everything: services first, then the replicas.
    pub(crate) fn start(topology: Topology, roles: &[(Role, usize)], settings: &Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (postgres, rabbit, valkey) = services(topology, folder.path());
        let tasks = Tasks::default();
        let peers = Peers::default();
        let address = peers.serve(&runtime, &tasks);
        let nobody = "amqp://guest:guest@127.0.0.1:1/%2f".to_owned();
        let store = || "store".to_owned();
        let addresses = Addresses {
            store: postgres.url(),
            queue: match &rabbit {
                Some(rabbit) => rabbit.url(),
                None if topology == Topology::NoBroker => nobody,
                None => store(),
            },
            bus: valkey.as_ref().map_or_else(store, Valkey::url),
            peers: address.clone(),
        };
        let directory = Arc::new(Directory::default());
        let mut replicas = Vec::new();
        for (role, count) in roles {
            for number in 1..=*count {
                let name = format!("{role:?}-{number}").to_lowercase();
                let services = (&directory, &runtime);
                let one = (name, *role);
                replicas.push(Replica::new(
                    one,
                    &addresses,
                    folder.path(),
                    settings,
                    services,
                ));
            }
        }
        // The first one makes the tables, which are watched before anything is written into them.
        replicas[0].start();
        let audit = Audit::install(&postgres.url());
        std::thread::scope(|scope| {
            for replica in &mut replicas[1..] {
                scope.spawn(|| replica.start());
            }
        });
        Self {
            replicas,
            valkey,
            rabbit,
            postgres,
            audit,
            peers,
            tools_url: format!("http://{address}/mcp"),
            directory,
            deaths: Vec::new(),
            begun: Instant::now(),
            tasks,
            runtime,
            _folder: folder,
        }
    }

    /// Numbers of the running replicas of these roles.
    pub(crate) fn running(&self, wanted: impl Fn(Role) -> bool) -> Vec<usize> {
        let all = self.replicas.iter().enumerate();
        all.filter(|(_, replica)| replica.is_running() && wanted(replica.role))
            .map(|(at, _)| at)
            .collect()
    }

    /// Kills one and starts it again.
    pub(crate) fn kill(&mut self, at: usize) {
        let death = self.replicas[at].kill();
        self.deaths.push(death);
        self.replicas[at].start();
    }

    /// Says what happens.
    pub(crate) fn say(&self, what: &str) {
        println!("[{:6.1} s] {what}", self.elapsed().as_secs_f64());
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A stopped process must be continued before it can be killed.
        for replica in &self.replicas {
            replica.signal("CONT");
        }
        self.tasks.shutdown.interrupt();
    }
}

fn services(
    topology: Topology,
    folder: &std::path::Path,
) -> (Cluster, Option<Rabbit>, Option<Valkey>) {
    std::thread::scope(|scope| {
        let full = topology == Topology::Full;
        let rabbit = full.then(|| scope.spawn(|| Rabbit::start(folder)));
        let valkey = full.then(|| Valkey::start(folder));
        let settings = [("max_connections", "200")];
        let postgres = Cluster::start(&settings)
            .expect("the fault suite needs PostgreSQL's server: install the package postgresql (it need not run)");
        let rabbit = rabbit.map(|starting| starting.join().unwrap());
        (postgres, rabbit, valkey)
    })
}
