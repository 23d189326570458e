//! TLS of the provider: a CA and a certificate that exist as long as the process.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::upstream::HttpVersion;

/// The names in the provider's certificate.
const HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

/// An acceptor, and the CA certificate that clients must trust.
pub(crate) struct ProviderTls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) ca_pem: String,
}

/// Creates a CA and a certificate signed by it. Their keys stay in memory. `offered` are the HTTP versions in ALPN,
/// the preferred one first.
pub(crate) fn create(offered: &[HttpVersion]) -> anyhow::Result<ProviderTls> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "Runloom benchmark CA");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(HOSTS.map(str::to_owned))?.signed_by(&key, &ca)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], key)?;
    config.alpn_protocols = offered
        .iter()
        .map(|version| version.alpn().as_bytes().to_vec())
        .collect();
    // Session resumption, as vendors offer it.
    config.ticketer = Ticketer::new()?;
    Ok(ProviderTls {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        ca_pem: ca.pem(),
    })
}
