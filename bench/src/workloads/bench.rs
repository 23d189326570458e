//! What every workload uses: the provider, and the means to start servers and floors.

use std::path::PathBuf;

use anyhow::Context;

use crate::http::Connection;
use crate::load::{Volume, closed_loop};
use crate::options::{Effort, Options};
use crate::process::ServerProcess;
use crate::provider::{RESET_PEAK_PATH, Stats};
use crate::server::{Deployment, Server, ServerLauncher};
use crate::target::{Prompt, Target};
use crate::upstream::{HttpVersion, ProviderProcess, Upstream};

use super::Subject;

pub(crate) struct Bench {
    provider: ProviderProcess,
    pub(super) launcher: ServerLauncher,
    pub(super) effort: Effort,
}

/// A running floor.
pub(super) struct Floor {
    _process: ServerProcess,
    pub(super) subject: Subject,
}

impl Bench {
    /// Deploys the servers of the next workloads in this way.
    pub(super) fn deploy(&mut self, deployment: Deployment) {
        self.launcher.deployment = deployment;
    }

    /// Starts the provider and finds out which HTTP version the server under test calls it with.
    pub(super) async fn start(options: &Options) -> anyhow::Result<Self> {
        let binary = std::path::absolute(&options.server)?;
        binary
            .metadata()
            .with_context(|| format!("--server: there is no file {}", binary.display()))?;
        let folder = std::path::absolute(&options.out)?.join("work");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let provider = ProviderProcess::start(options.upstream, &folder)?;
        let launcher = ServerLauncher {
            binary,
            folder,
            provider: provider.endpoint(HttpVersion::Http1)?,
            deployment: Deployment::Sqlite,
        };
        let mut bench = Self {
            provider,
            launcher,
            effort: options.effort,
        };
        let version = bench.negotiated_version(options.upstream).await?;
        bench.launcher.provider = bench.provider.endpoint(version)?;
        Ok(bench)
    }

    /// The HTTP version of the server under test, found by one run.
    async fn negotiated_version(&self, upstream: Upstream) -> anyhow::Result<HttpVersion> {
        const PROMPT: Prompt = Prompt {
            model: "bench-t1",
            text: "hello",
            tokens: 1,
        };
        const ONE: Volume = Volume {
            runs: 1,
            concurrency: 1,
        };
        let server = self.server("probe", &[PROMPT.model])?;
        let target = &server.subject.target;
        let load = closed_loop(target, &target.run(PROMPT), ONE).await;
        anyhow::ensure!(
            load.failed == 0,
            "the server cannot call the provider with --upstream {}: {}",
            upstream.name(),
            load.errors.join("; ")
        );
        drop(server);
        self.launcher.clear("probe");
        let stats = self.provider_stats().await?;
        Ok(if stats.http2_requests > 0 {
            HttpVersion::Http2
        } else {
            HttpVersion::Http1
        })
    }

    /// The provider without TLS.
    pub(super) fn provider(&self) -> Target {
        Target::Direct(self.provider.plain_address())
    }

    /// Starts a floor. Every workload has its own, so that memory of an earlier one does not count.
    pub(super) fn floor(&self) -> anyhow::Result<Floor> {
        let [url, version, ca_file] = self.launcher.provider.arguments();
        let arguments = ["floor".to_owned(), url, version, ca_file];
        let process = ServerProcess::start_role(&arguments, &self.log("floor"))?;
        let subject = Subject {
            target: Target::Direct(process.address),
            processes: process.usage(),
        };
        Ok(Floor {
            _process: process,
            subject,
        })
    }

    /// Starts a server with an empty store.
    pub(super) fn server(&self, name: &str, models: &[&str]) -> anyhow::Result<Server> {
        self.launcher.start_empty(name, models)
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.launcher.folder.join(format!("{name}.log"))
    }

    pub(super) async fn provider_stats(&self) -> anyhow::Result<Stats> {
        Ok(serde_json::from_slice(&self.ask_provider("/stats").await?)?)
    }

    pub(super) async fn ask_provider(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.send_to_provider(&self.provider().get(path)).await
    }

    /// Resets the provider's [`Stats::peak_open`].
    pub(super) async fn reset_peak_open(&self) -> anyhow::Result<()> {
        let request = self.provider().post(RESET_PEAK_PATH, b"", 0);
        self.send_to_provider(&request.bytes).await?;
        Ok(())
    }

    async fn send_to_provider(&self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut connection = Connection::new(self.provider.plain_address());
        let head = connection.send(request).await?;
        connection.expect_body(head, 200).await
    }
}
