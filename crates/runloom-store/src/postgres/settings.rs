//! A server that may forget what it acknowledged is refused.

use tokio_postgres::Client;

use super::error::Failure;

/// The oldest server this program speaks to: the first that tells by number what became of a transaction.
const OLDEST: u32 = 130_000;

/// One setting of the server, as this session sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
}

/// What is wrong with the server, and how it is put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) setting: String,
    pub(super) value: String,
    pub(super) remedy: &'static str,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            setting,
            value,
            remedy,
        } = self;
        write!(f, "PostgreSQL has {setting} = {value}: {remedy}")
    }
}

/// Asks the server.
pub(super) async fn read(client: &Client) -> Result<Vec<Setting>, Failure> {
    let rows = client
        .query(
            "SELECT name, setting FROM pg_settings WHERE name IN
                 ('fsync', 'full_page_writes', 'synchronous_commit', 'server_encoding', 'server_version_num')",
            &[],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Setting {
                name: row.try_get(0)?,
                value: row.try_get(1)?,
            })
        })
        .collect()
}

/// The first setting under which an acknowledged write could be lost or not be written at all.
pub(super) fn complaint(settings: &[Setting]) -> Option<Complaint> {
    settings.iter().find_map(|setting| {
        let value = setting.value.as_str();
        let remedy = match setting.name.as_str() {
            "fsync" if value == "off" => {
                "a power cut would destroy the database. Set fsync = on in postgresql.conf and reload"
            }
            "full_page_writes" if value == "off" => {
                "a power cut would tear pages. Set full_page_writes = on in postgresql.conf and reload"
            }
            "synchronous_commit" if value == "off" => {
                "acknowledged writes would be lost in a crash. Set synchronous_commit = on (in postgresql.conf, or by ALTER ROLE / ALTER DATABASE … RESET synchronous_commit)"
            }
            "server_encoding" if value != "UTF8" => {
                "not every text can be stored. Create the database with ENCODING 'UTF8'"
            }
            "server_version_num" if value.parse().is_ok_and(|version: u32| version < OLDEST) => {
                "PostgreSQL 13 or newer is needed"
            }
            _ => return None,
        };
        Some(Complaint {
            setting: setting.name.clone(),
            value: setting.value.clone(),
            remedy,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{Setting, complaint};

    fn settings(name: &str, value: &str) -> Vec<Setting> {
        [
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("server_encoding", "UTF8"),
            ("server_version_num", "150020"),
            ("synchronous_commit", "on"),
        ]
        .into_iter()
        .map(|(known, good)| Setting {
            name: known.to_owned(),
            value: if known == name { value } else { good }.to_owned(),
        })
        .collect()
    }

    #[test]
    fn accepts_durable_settings() {
        for safe in ["on", "local", "remote_write", "remote_apply"] {
            assert_eq!(complaint(&settings("synchronous_commit", safe)), None);
        }
    }

    #[test]
    fn names_settings_that_lose_data() {
        for (name, value) in [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
            ("server_encoding", "SQL_ASCII"),
            ("server_version_num", "120004"),
        ] {
            let said = complaint(&settings(name, value)).unwrap().to_string();
            assert!(said.contains(&format!("{name} = {value}")), "{said}");
        }
    }
}
