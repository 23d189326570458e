//! How the provider is called: scheme, HTTP version and trusted CA.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::process::ServerProcess;

/// An HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HttpVersion {
    Http1,
    Http2,
}

impl HttpVersion {
    /// The name in ALPN.
    pub(crate) const fn alpn(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }

    fn parse(name: &str) -> anyhow::Result<Self> {
        [Self::Http1, Self::Http2]
            .into_iter()
            .find(|version| version.alpn() == name)
            .with_context(|| format!("unknown HTTP version {name:?}; use \"http/1.1\" or \"h2\""))
    }
}

/// The way from the servers to the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// TLS with HTTP/2 and HTTP/1.1, as vendors offer it; the server under test chooses.
    Https,
    /// TLS with HTTP/1.1 only.
    HttpsHttp1,
    /// TLS with HTTP/2 only.
    HttpsHttp2,
    /// HTTP/1.1 without TLS.
    Http,
}

impl Upstream {
    const ALL: [Self; 4] = [Self::Https, Self::HttpsHttp1, Self::HttpsHttp2, Self::Http];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::HttpsHttp1 => "https-h1",
            Self::HttpsHttp2 => "https-h2",
            Self::Http => "http",
        }
    }

    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        Self::ALL
            .into_iter()
            .find(|upstream| upstream.name() == name)
            .with_context(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|upstream| upstream.name()).collect();
                format!("unknown upstream {name:?}; use {}", names.join(", "))
            })
    }

    /// HTTP versions that the provider's TLS listener offers, the preferred one first.
    pub(crate) const fn offered(self) -> &'static [HttpVersion] {
        match self {
            Self::HttpsHttp1 => &[HttpVersion::Http1],
            Self::HttpsHttp2 => &[HttpVersion::Http2],
            Self::Https | Self::Http => &[HttpVersion::Http2, HttpVersion::Http1],
        }
    }
}

/// The running provider.
#[derive(Debug)]
pub(crate) struct ProviderProcess {
    process: ServerProcess,
    upstream: Upstream,
    ca_file: PathBuf,
}

impl ProviderProcess {
    /// Starts the provider; its CA certificate and log are in `folder`.
    pub(crate) fn start(upstream: Upstream, folder: &Path) -> anyhow::Result<Self> {
        let ca_file = folder.join("ca.pem");
        let arguments = [
            "provider".to_owned(),
            upstream.name().to_owned(),
            ca_file.display().to_string(),
        ];
        let process = ServerProcess::start_role(&arguments, &folder.join("provider.log"))?;
        Ok(Self {
            process,
            upstream,
            ca_file,
        })
    }

    /// The listener without TLS, which the load generator uses itself.
    pub(crate) fn plain_address(&self) -> SocketAddr {
        self.process.address
    }

    /// How a client with this HTTP version calls the provider.
    pub(crate) fn endpoint(&self, version: HttpVersion) -> anyhow::Result<Endpoint> {
        let url = match self.upstream {
            Upstream::Http => format!("http://{}", self.process.address),
            Upstream::Https | Upstream::HttpsHttp1 | Upstream::HttpsHttp2 => {
                let address = self.process.tls_address;
                format!("https://{}", address.context("the provider has no TLS")?)
            }
        };
        Ok(Endpoint {
            url,
            version,
            ca_file: self.ca_file.clone(),
        })
    }
}

/// How a client calls the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Without a path, as in `https://127.0.0.1:4000`.
    pub(crate) url: String,
    pub(crate) version: HttpVersion,
    /// The provider's CA certificate.
    pub(crate) ca_file: PathBuf,
}

impl Endpoint {
    /// The reverse of [`Endpoint::parse`].
    pub(crate) fn arguments(&self) -> [String; 3] {
        [
            self.url.clone(),
            self.version.alpn().to_owned(),
            self.ca_file.display().to_string(),
        ]
    }

    pub(crate) fn parse(url: &str, version: &str, ca_file: &str) -> anyhow::Result<Self> {
        Ok(Self {
            url: url.to_owned(),
            version: HttpVersion::parse(version)?,
            ca_file: ca_file.into(),
        })
    }

    /// A client with the TLS library of the server under test, which trusts only the provider's CA.
    pub(crate) fn client(&self) -> anyhow::Result<reqwest::Client> {
        let pem = std::fs::read(&self.ca_file)
            .with_context(|| format!("cannot read {}", self.ca_file.display()))?;
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([reqwest::Certificate::from_pem(&pem)?]);
        let builder = match self.version {
            HttpVersion::Http1 => builder.http1_only(),
            HttpVersion::Http2 => builder,
        };
        Ok(builder.build()?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Upstream};

    #[test]
    fn parses_every_upstream_by_name() {
        for upstream in Upstream::ALL {
            assert_eq!(Upstream::parse(upstream.name()).unwrap(), upstream);
        }
        let error = Upstream::parse("ftp").unwrap_err().to_string();
        assert!(error.contains("https-h2"), "{error}");
    }

    #[test]
    fn passes_an_endpoint_through_arguments() {
        let endpoint = Endpoint::parse("https://127.0.0.1:1", "h2", "/tmp/ca.pem").unwrap();
        let [url, version, ca_file] = endpoint.arguments();
        assert_eq!(Endpoint::parse(&url, &version, &ca_file).unwrap(), endpoint);
        assert!(Endpoint::parse(&url, "h3", &ca_file).is_err());
    }
}
