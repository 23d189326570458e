//! A throw-away certificate authority and a certificate for 127.0.0.1, made by `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Files in PEM.
pub(crate) struct Certificate {
    pub(crate) authority: PathBuf,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    pub(crate) fn create(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        let made = Self {
            authority: file("ca.pem"),
            chain: file("chain.pem"),
            key: file("key.pem"),
        };
        let authority_key = file("ca-key.pem");
        let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
        openssl(
            Command::new("openssl")
                .args(["req", "-x509", "-nodes", "-days", "2"])
                .args(new_key)
                .args(["-subj", "/CN=Throw-away authority", "-keyout"])
                .arg(&authority_key)
                .arg("-out")
                .arg(&made.authority),
        );
        openssl(
            Command::new("openssl")
                .args(["req", "-x509", "-nodes", "-days", "2"])
                .args(new_key)
                .args(["-subj", "/CN=provider", "-addext"])
                .arg("subjectAltName=IP:127.0.0.1")
                .args(["-addext", "basicConstraints=critical,CA:FALSE", "-CA"])
                .arg(&made.authority)
                .arg("-CAkey")
                .arg(&authority_key)
                .arg("-keyout")
                .arg(&made.key)
                .arg("-out")
                .arg(&made.chain),
        );
        made
    }
}

fn openssl(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("this test needs `openssl`: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
