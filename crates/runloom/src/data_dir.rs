//! The data folder of an embedded server: keys beside the data, readable by the owner only.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use runloom_ports::secret::Secret;
use serde::{Deserialize, Serialize};

/// Default data folder of `runloom dev`.
pub(crate) const DEFAULT: &str = ".runloom";

/// The credentials that `runloom dev` created at its first start, and its current address.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DevCredentials {
    pub(crate) url: String,
    pub(crate) workspace: String,
    pub(crate) api_key: String,
    pub(crate) admin_token: String,
    /// The default model that was chosen, or found at the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default_model: Option<String>,
}

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The database of an embedded server.
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("runloom.db")
    }

    fn credentials_file(&self) -> PathBuf {
        self.0.join("dev.json")
    }

    /// Creates the folder if it is missing.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&self.0)
            .with_context(|| format!("cannot create the data folder {}", self.0.display()))
    }

    /// The master key of this folder, created by the first call.
    pub(crate) fn master_key(&self) -> anyhow::Result<Secret> {
        let path = self.0.join("master.key");
        match fs::read_to_string(&path) {
            Ok(key) if key.trim().len() >= 32 => Ok(Secret::new(key.trim())),
            Ok(_) => anyhow::bail!(
                "{} is damaged: it should hold 64 hexadecimal digits",
                path.display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = random_hex()?;
                write_private(&path, &key)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Ok(Secret::new(key))
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The credentials of `runloom dev`; `None` when it never ran here.
    pub(crate) fn credentials(&self) -> anyhow::Result<Option<DevCredentials>> {
        let path = self.credentials_file();
        match fs::read(&path) {
            Ok(bytes) => {
                let read = serde_json::from_slice(&bytes);
                read.map(Some).with_context(|| {
                    format!("{} is damaged; remove it to get new keys", path.display())
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The credentials of this folder, created by the first call.
    pub(crate) fn credentials_or_new(&self) -> anyhow::Result<DevCredentials> {
        if let Some(credentials) = self.credentials()? {
            return Ok(credentials);
        }
        let credentials = DevCredentials {
            url: String::new(),
            workspace: "demo".to_owned(),
            api_key: format!("mantyx_{}", random_word()?),
            admin_token: format!("runloom_admin_{}", random_hex()?),
            default_model: None,
        };
        self.keep(&credentials)?;
        Ok(credentials)
    }

    /// Stores the credentials for the next start and for client commands.
    pub(crate) fn keep(&self, credentials: &DevCredentials) -> anyhow::Result<()> {
        let path = self.credentials_file();
        let text = serde_json::to_string_pretty(credentials)?;
        write_private(&path, &text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// 32 random bytes.
pub(crate) fn random_hex() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the operating system has no randomness: {error}"))?;
    let mut hex = String::with_capacity(64);
    for byte in bytes {
        write!(hex, "{byte:02x}")?;
    }
    Ok(hex)
}

/// 24 random letters and digits: short enough for one line, 142 bits.
fn random_word() -> anyhow::Result<String> {
    const CHARS: usize = 24;
    let mut word = String::with_capacity(CHARS);
    while word.len() < CHARS {
        let mut bytes = [0_u8; 64];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow::anyhow!("the operating system has no randomness: {error}"))?;
        let letters = bytes.iter().map(|byte| char::from(byte & 0x7f));
        let letters = letters.filter(char::is_ascii_alphanumeric);
        word.extend(letters.take(CHARS - word.len()));
    }
    Ok(word)
}

/// Writes a file atomically, readable by the owner only.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    // A draft left by a crash may have other permissions.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_stored_privately() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path().join("data"));
        assert!(data.credentials().unwrap().is_none());
        data.create().unwrap();
        let first = (
            data.master_key().unwrap(),
            data.credentials_or_new().unwrap(),
        );
        let second = (
            data.master_key().unwrap(),
            data.credentials_or_new().unwrap(),
        );
        assert!(first == second);
        assert_eq!(first.1.api_key.len(), "mantyx_".len() + 24);
        #[cfg(unix)]
        for name in ["master.key", "dev.json"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(data.path().join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn refuses_damaged_keys() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        fs::write(folder.path().join("master.key"), "short").unwrap();
        fs::write(folder.path().join("dev.json"), "{").unwrap();
        assert!(
            data.master_key()
                .unwrap_err()
                .to_string()
                .contains("master.key is damaged")
        );
        assert!(
            format!("{:#}", data.credentials_or_new().err().unwrap())
                .contains("dev.json is damaged")
        );
    }
}
