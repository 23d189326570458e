//! Ways to the server: the URL, TLS, and what every connection is told first.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use runloom_ports::tasks::Tasks;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Failure;
use crate::OpenError;

/// Longest time to make a connection, unless the URL says otherwise.
const CONNECT: Duration = Duration::from_secs(5);

/// Longest silence on a connection with something under way before the kernel gives it up.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// What every session is told. No statement, lock or forgotten transaction may hold anything for long: a worker that
/// stands still inside a transaction keeps the rows of its runs locked, and others must have them within seconds. Two
/// of the settings pin what the statements rest on. `synchronous_commit` is left alone: it is checked, and refused
/// when it is off.
pub(super) const SESSION: &str = "SET statement_timeout = '20s'; SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '5s'; SET default_transaction_isolation = 'read committed';
    SET client_encoding = 'UTF8'";

/// Where the server is and how it is spoken to.
#[derive(Clone)]
pub(super) struct Endpoint {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration may hold a password.
        f.debug_struct("Endpoint")
            .field("database", &self.config.get_dbname())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Reads a URL. `sslmode` is `disable`, `allow` or `prefer` (all three: no encryption), or `require`, `verify-ca`
    /// or `verify-full` (all three: TLS, and the certificate must be good for the host). `sslrootcert` names a PEM
    /// file with the authorities to trust instead of the system's.
    pub(super) fn of(url: &str) -> Result<Self, OpenError> {
        let (plain, options) = split_tls(url);
        let mut config = parse(&plain)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("runloom");
        }
        config.tcp_user_timeout(UNACKNOWLEDGED);
        config.keepalives_idle(Duration::from_secs(30));
        let tls = match options.mode.as_deref() {
            None | Some("disable" | "allow" | "prefer") => {
                config.ssl_mode(SslMode::Disable);
                warn_unencrypted(&config);
                None
            }
            Some("require" | "verify-ca" | "verify-full") => {
                config.ssl_mode(SslMode::Require);
                Some(MakeRustlsConnect::new(client_config(
                    options.roots.as_deref(),
                )?))
            }
            Some(mode) => {
                return Err(OpenError::BadUrl {
                    problem: format!(
                        "sslmode={mode} is not known: use disable, require or verify-full"
                    ),
                });
            }
        };
        Ok(Self { config, tls })
    }

    /// A pool of connections like this one.
    pub(super) fn manager(&self) -> deadpool_postgres::Manager {
        let recycling = deadpool_postgres::ManagerConfig {
            recycling_method: deadpool_postgres::RecyclingMethod::Fast,
        };
        match &self.tls {
            None => deadpool_postgres::Manager::from_config(self.config.clone(), NoTls, recycling),
            Some(tls) => {
                deadpool_postgres::Manager::from_config(self.config.clone(), tls.clone(), recycling)
            }
        }
    }

    /// Opens a dedicated connection. Messages that the server sends unasked go to `messages`; the task of the
    /// connection ends when the client is dropped or the server is gone.
    pub(super) async fn connect(
        &self,
        tasks: &Tasks,
        messages: Option<mpsc::UnboundedSender<AsyncMessage>>,
    ) -> Result<Client, Failure> {
        let client = match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tasks.spawn("postgres_connection", serve(connection, messages));
                client
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tasks.spawn("postgres_connection", serve(connection, messages));
                client
            }
        };
        client.batch_execute(SESSION).await?;
        Ok(client)
    }
}

/// Drives a connection until it ends. Callers that wait for a response get its error, too.
async fn serve<S>(
    mut connection: Connection<Socket, S>,
    messages: Option<mpsc::UnboundedSender<AsyncMessage>>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match std::future::poll_fn(|context| connection.poll_message(context)).await {
            None => return,
            Some(Ok(message)) => {
                if let Some(messages) = &messages {
                    let _ = messages.send(message);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "PostgreSQL connection ended");
                return;
            }
        }
    }
}

/// Reads a URL. What the driver says of a wrong one may repeat parts of it, so only its fixed words are passed on.
fn parse(url: &str) -> Result<Config, OpenError> {
    const FORM: &str = "write postgres://USER:PASSWORD@HOST:5432/DATABASE, with %40 for an @ in the user or password, %3A for a :, \
                        %2F for a / and so on";
    let wrong = |what: &str| OpenError::BadUrl {
        problem: format!("{what}; {FORM}"),
    };
    if !url.contains("://") {
        return Err(wrong("there is no // behind the colon"));
    }
    let config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let said = error.source().map(ToString::to_string);
        match said.filter(|said| said.starts_with("invalid value for option")) {
            Some(said) => wrong(&said),
            None => wrong("it cannot be read, or has an unknown option behind the ?"),
        }
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(wrong("it names no host"));
    }
    Ok(config)
}

/// The parts of a URL that the driver does not understand.
#[derive(Default)]
struct TlsOptions {
    mode: Option<String>,
    roots: Option<String>,
}

fn split_tls(url: &str) -> (String, TlsOptions) {
    let mut options = TlsOptions::default();
    let Some((address, query)) = url.split_once('?') else {
        return (url.to_owned(), options);
    };
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", mode)) => options.mode = Some(mode.to_owned()),
            Some(("sslrootcert", roots)) => options.roots = Some(roots.replace("%2F", "/")),
            _ => rest.push(pair),
        }
    }
    if rest.is_empty() {
        (address.to_owned(), options)
    } else {
        (format!("{address}?{}", rest.join("&")), options)
    }
}

fn client_config(roots: Option<&str>) -> Result<ClientConfig, OpenError> {
    let bad = |problem: String| OpenError::BadUrl { problem };
    let mut trusted = RootCertStore::empty();
    match roots {
        Some(path) => {
            let unreadable = |error| bad(format!("sslrootcert {path} cannot be read: {error}"));
            for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                let certificate = certificate.map_err(unreadable)?;
                trusted
                    .add(certificate)
                    .map_err(|error| bad(format!("sslrootcert {path}: {error}")))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            trusted.add_parsable_certificates(found.certs);
        }
    }
    if trusted.is_empty() {
        return Err(bad(
            "TLS is asked for, but no authority is trusted: install the system's certificates (Debian: ca-certificates) or name a PEM file with sslrootcert=PATH".to_owned(),
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(format!("TLS cannot be set up: {error}")))?;
    Ok(config.with_root_certificates(trusted).with_no_client_auth())
}

/// Says once that passwords and runs travel in the clear, unless they stay on this machine.
fn warn_unencrypted(config: &Config) {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    if !config.get_hosts().iter().all(is_local) {
        tracing::warn!(
            "the connection to PostgreSQL is not encrypted: add sslmode=verify-full to the store's URL"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, split_tls};

    #[test]
    fn removes_tls_options_from_the_url() {
        let (plain, options) = split_tls(
            "postgres://u@h/db?sslmode=verify-full&connect_timeout=3&sslrootcert=a%2Fb.pem",
        );
        assert_eq!(plain, "postgres://u@h/db?connect_timeout=3");
        assert_eq!(options.mode.as_deref(), Some("verify-full"));
        assert_eq!(options.roots.as_deref(), Some("a/b.pem"));
    }

    #[test]
    fn refuses_unknown_sslmode() {
        let error = Endpoint::of("postgres://u:hunter2@h/db?sslmode=maybe").unwrap_err();
        assert!(error.to_string().contains("verify-full"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn refuses_invalid_urls_without_repeating_them() {
        for url in [
            "postgres:",
            "postgres:u:hunter2@h",
            "postgres://",
            "postgres:///hunter2",
            "postgres://u:hunter2@h:port/db",
            "postgres://u:hunter2@h:99999/db",
            "postgres://u:hunter2@h/db?hunter2=x",
            "postgres://u:hunter2@h/db?connect_timeout=soon",
            "postgres://u:%hunter2@h:1:2/db",
        ] {
            let error = Endpoint::of(url).expect_err(url);
            assert!(
                error.to_string().contains("postgres://USER:PASSWORD@HOST"),
                "{url}: {error}"
            );
            assert!(
                !format!("{error} {error:?}").contains("ter2"),
                "{url}: {error:?}"
            );
        }
    }
}
