//! `runloom admin memory …`: list and delete memories of agents.

use clap::Subcommand;
use runloom_client::AdminClient;
use serde_json::json;

use crate::exit::Failure;
use crate::output;

/// Maximum characters of a memory in a table.
const SHOWN: usize = 80;

/// Memories of a workspace.
#[derive(Debug, Subcommand)]
pub(super) enum Memories {
    /// List memories, newest first
    List {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// Maximum number
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
        /// The cursor of the page, from the previous page
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Delete one memory, or all old ones
    Forget {
        /// The workspace
        #[arg(long, short)]
        workspace: String,
        /// The key of the memory
        #[arg(
            required_unless_present = "older_than_days",
            conflicts_with = "older_than_days"
        )]
        key: Option<String>,
        /// Delete memories not changed for this many days; 0 deletes all
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
        older_than_days: Option<u32>,
    },
}

pub(super) async fn run(
    client: &AdminClient,
    command: Memories,
    json: bool,
) -> Result<(), Failure> {
    match command {
        Memories::List {
            workspace,
            limit,
            cursor,
        } => {
            let page = client
                .memories(&workspace, limit, cursor.as_deref())
                .await?;
            if json {
                output::json(&page)?;
                return Ok(());
            }
            let rows: Vec<_> = page
                .memories
                .iter()
                .map(|memory| {
                    let line: String = memory.text.split_whitespace().collect::<Vec<_>>().join(" ");
                    vec![
                        memory.key.clone(),
                        memory.updated_at.chars().take(19).collect(),
                        line.chars().take(SHOWN).collect(),
                    ]
                })
                .collect();
            output::table(&["KEY", "UPDATED", "TEXT"], &rows)?;
            if let Some(cursor) = page.next_cursor {
                output::note(format!("There are more: --cursor {cursor}"));
            }
        }
        Memories::Forget {
            workspace,
            key,
            older_than_days,
        } => {
            let forgotten = match (key, older_than_days) {
                (Some(key), _) => {
                    client.forget_memory(&workspace, &key).await?;
                    1
                }
                (None, Some(days)) => client.forget_memories(&workspace, days).await?.forgotten,
                (None, None) => 0,
            };
            if json {
                output::json(&json!({ "forgotten": forgotten }))?;
            } else {
                output::line(format!("{forgotten} forgotten"))?;
            }
        }
    }
    Ok(())
}
