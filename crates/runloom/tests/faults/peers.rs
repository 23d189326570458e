//! Those outside who play along, in one small server: the model and the tools.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::routing::post;
use runloom_ports::tasks::Tasks;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::tools::Entry;
use crate::{provider, tools};

/// What the peers know; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Peers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    ledger: Mutex<Vec<Entry>>,
    complaints: Mutex<Vec<String>>,
    deaths: Mutex<Option<Sender<String>>>,
}

impl Peers {
    /// Serves on a port of its own, which is returned.
    pub(crate) fn serve(&self, runtime: &Runtime, tasks: &Tasks) -> String {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let router = Router::new()
            .route("/model/{asker}/chat/completions", post(provider::complete))
            .route("/mcp", post(tools::serve))
            .with_state(self.clone());
        let _inside = runtime.enter();
        tasks.spawn_detached("peers", async move {
            axum::serve(listener, router).await.unwrap();
        });
        address
    }

    /// What the tool server was asked to do, in order.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.ledger.lock().unwrap()
    }

    /// Something that no real peer would have taken.
    pub(crate) fn complain(&self, what: String) {
        self.0.complaints.lock().unwrap().push(what);
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.0.complaints.lock().unwrap().clone()
    }

    /// Names of the processes that asked for a deadly turn, as they do.
    pub(crate) fn deaths(&self) -> Receiver<String> {
        let (sender, deaths) = channel();
        *self.0.deaths.lock().unwrap() = Some(sender);
        deaths
    }

    pub(crate) fn died(&self, asker: &str) {
        if let Some(sender) = &*self.0.deaths.lock().unwrap() {
            let _ = sender.send(asker.to_owned());
        }
    }
}
