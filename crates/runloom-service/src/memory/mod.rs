//! Memories of a workspace: written by agents through the `@memory` plugin, managed by administrators.
//!
//! A search matches words first, then follows links: a part of each score spreads to linked memories, so that a
//! memory linked to several good matches is found although it shares no word with the query.

mod rank;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use runloom_protocol::limits;
use runloom_protocol::resource::{MemoryInfo, MemoryLinkInfo};

use runloom_ports::clock::{Clock, rfc3339};
use runloom_ports::error::{Error, Result};
use runloom_ports::memory::{Kept, Recollection, Remember, Traverse, WorkspaceMemory};
use runloom_ports::store::{
    MemoryLink, MemoryRow, Millis, PutMemory, Remembered, Store, WorkspaceNo,
};

use rank::{asked, ranked, seeded, spread, words};

/// Maximum memories of one workspace.
const MEMORIES_MAX: usize = 100_000;

/// Memories that words find, before links are looked at.
const SEEDS: usize = 32;

/// How far a score spreads.
const STEPS: u32 = 2;

/// Maximum links followed in one step.
const LINKS: usize = 256;

/// Maximum indexed words of one memory.
const INDEXED_WORDS: usize = 4_096;

/// Memories deleted in one transaction.
const FORGET_PAGE: usize = 500;

/// Memories of workspaces.
pub struct MemoryService {
    store: Arc<dyn Store>,
    clock: Clock,
}

impl std::fmt::Debug for MemoryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryService").finish_non_exhaustive()
    }
}

impl MemoryService {
    /// The memories in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Clock,
        }
    }

    /// A page of memories, newest first, and the cursor of the next page.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace; [`Error::Invalid`] for a malformed cursor.
    pub async fn list(
        &self,
        workspace: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<(Vec<MemoryInfo>, Option<String>)> {
        let workspace = self.workspace(workspace).await?;
        let before = match cursor {
            None => None,
            Some(cursor) => Some(crate::paging::parse_cursor(cursor).ok_or_else(|| {
                Error::invalid(
                    "cursor",
                    "is not a cursor of this list: use nextCursor of an earlier page",
                )
            })?),
        };
        let mut rows = self.store.memories(workspace, before, limit + 1).await?;
        let next = crate::paging::cut_page(&mut rows, limit, |row| row.no);
        Ok((rows.iter().map(info).collect(), next))
    }

    /// Deletes a memory.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn forget(&self, workspace: &str, key: &str) -> Result<()> {
        let workspace = self.workspace(workspace).await?;
        if self.store.forget(workspace, key).await? {
            Ok(())
        } else {
            Err(Error::NotFound { what: "memory" })
        }
    }

    /// Deletes memories that were not changed for this many days; 0 deletes all. Returns their number.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the workspace.
    pub async fn forget_older(&self, workspace: &str, days: u64) -> Result<usize> {
        let workspace = self.workspace(workspace).await?;
        let ago = i64::try_from(days.saturating_mul(24 * 3600 * 1000)).unwrap_or(i64::MAX);
        let before = match days {
            0 => Millis(i64::MAX),
            _ => Millis(self.clock.now().0.saturating_sub(ago)),
        };
        let mut gone = 0;
        loop {
            let page = self
                .store
                .forget_before(workspace, before, FORGET_PAGE)
                .await?;
            gone += page;
            if page < FORGET_PAGE {
                return Ok(gone);
            }
        }
    }

    async fn workspace(&self, slug: &str) -> Result<WorkspaceNo> {
        let found = self.store.workspace(slug).await?;
        let found = found.ok_or(Error::NotFound { what: "workspace" })?;
        Ok(found.no)
    }
}

#[async_trait]
impl WorkspaceMemory for MemoryService {
    async fn remember(&self, workspace: &str, memory: Remember) -> Result<Kept> {
        check(&memory)?;
        let workspace = self.workspace(workspace).await?;
        let key = memory.key.unwrap_or_else(|| key_of(&memory.text));
        // Queries often repeat words of the key.
        let words: Vec<String> = words(&key).chain(words(&memory.text)).collect();
        let put = PutMemory {
            workspace,
            key: key.clone(),
            words: words
                .into_iter()
                .take(INDEXED_WORDS)
                .collect::<Vec<_>>()
                .join(" "),
            text: memory.text,
            links: memory.links,
            limit: MEMORIES_MAX,
            now: self.clock.now(),
        };
        match self.store.remember(put).await? {
            Remembered::Created => Ok(Kept { key, created: true }),
            Remembered::Replaced => Ok(Kept {
                key,
                created: false,
            }),
            Remembered::Unknown(keys) => {
                let message = format!(
                    "there are no memories with these keys: {}; remember them first",
                    keys.join(", ")
                );
                Err(Error::invalid("links", message))
            }
            Remembered::Full => Err(Error::Conflict {
                message: format!("The workspace has {MEMORIES_MAX} memories already."),
            }),
        }
    }

    async fn recall(&self, workspace: &str, question: &str, limit: usize) -> Result<Recollection> {
        let workspace = self.workspace(workspace).await?;
        let words = asked(question);
        let seeds = self.store.matching(workspace, &words, SEEDS).await?;
        let mut scores = seeded(&seeds);
        let mut rows: HashMap<String, MemoryRow> = seeds
            .into_iter()
            .map(|row| (row.key.clone(), row))
            .collect();
        let mut frontier: BTreeSet<String> = rows.keys().cloned().collect();
        let mut known: BTreeMap<(String, String, String), MemoryLink> = BTreeMap::new();
        for step in 0..STEPS {
            let keys: Vec<String> = std::mem::take(&mut frontier).into_iter().collect();
            if keys.is_empty() {
                break;
            }
            let links = self.store.links_at(workspace, &keys, LINKS).await?;
            frontier = spread(&mut scores, &keys, &links, step == 0);
            known.extend(links.into_iter().map(|link| (place(&link), link)));
        }
        let ranked = ranked(&scores, &rows);
        let truncated = ranked.len() > limit;
        let best: Vec<String> = ranked.into_iter().take(limit).collect();
        let missing: Vec<String> = best
            .iter()
            .filter(|key| !rows.contains_key(*key))
            .cloned()
            .collect();
        if !missing.is_empty() {
            let more = self.store.memories_by_key(workspace, &missing).await?;
            rows.extend(more.into_iter().map(|row| (row.key.clone(), row)));
        }
        let memories: Vec<MemoryInfo> = best
            .iter()
            .filter_map(|key| rows.get(key))
            .map(info)
            .collect();
        let links = between(known.into_values(), &memories);
        Ok(Recollection {
            memories,
            links,
            truncated,
        })
    }

    async fn traverse(&self, workspace: &str, walk: Traverse) -> Result<Recollection> {
        let workspace = self.workspace(workspace).await?;
        let start = [walk.from.clone()];
        if self
            .store
            .memories_by_key(workspace, &start)
            .await?
            .is_empty()
        {
            return Err(Error::NotFound { what: "memory" });
        }
        let mut order = vec![walk.from.clone()];
        let mut seen = BTreeSet::from([walk.from]);
        let mut known: BTreeMap<(String, String, String), MemoryLink> = BTreeMap::new();
        let (mut frontier, mut truncated) = (order.clone(), false);
        for _ in 0..walk.hops {
            let links = self.store.links_at(workspace, &frontier, LINKS).await?;
            truncated |= links.len() == LINKS;
            let mut next = Vec::new();
            for link in links {
                if walk
                    .relation
                    .as_ref()
                    .is_some_and(|wanted| *wanted != link.relation)
                {
                    continue;
                }
                for end in [&link.from, &link.to] {
                    if !seen.contains(end) && order.len() + next.len() < walk.limit {
                        seen.insert(end.clone());
                        next.push(end.clone());
                    } else if !seen.contains(end) {
                        truncated = true;
                    }
                }
                known.insert(place(&link), link);
            }
            order.extend(next.iter().cloned());
            frontier = next;
            if frontier.is_empty() {
                break;
            }
        }
        let rows = self.store.memories_by_key(workspace, &order).await?;
        let rows: HashMap<&str, &MemoryRow> =
            rows.iter().map(|row| (row.key.as_str(), row)).collect();
        let memories: Vec<MemoryInfo> = order
            .iter()
            .filter_map(|key| rows.get(key.as_str()).map(|row| info(row)))
            .collect();
        let links = between(known.into_values(), &memories);
        Ok(Recollection {
            memories,
            links,
            truncated,
        })
    }
}

/// Everything that is wrong with a memory.
fn check(memory: &Remember) -> Result<()> {
    let mut issues = Vec::new();
    let mut refuse = |path: String, message: String| {
        issues.push(runloom_protocol::error::Issue { path, message });
    };
    if memory.text.trim().is_empty() {
        refuse("text".to_owned(), "must not be empty".to_owned());
    }
    if memory.text.len() > limits::MEMORY_TEXT_MAX_BYTES {
        let max = limits::MEMORY_TEXT_MAX_BYTES;
        refuse(
            "text".to_owned(),
            format!("must be at most {max} bytes; keep several memories and link them"),
        );
    }
    if let Some(key) = &memory.key
        && !is_key(key)
    {
        refuse("key".to_owned(), KEY_RULE.to_owned());
    }
    let links = memory.links.as_deref().unwrap_or_default();
    if links.len() > limits::MEMORY_LINKS_MAX {
        let max = limits::MEMORY_LINKS_MAX;
        refuse("links".to_owned(), format!("must be at most {max}"));
    }
    for (index, (relation, to)) in links.iter().enumerate() {
        if !is_key(relation) {
            refuse(format!("links[{index}].relation"), KEY_RULE.to_owned());
        }
        if memory.key.as_ref() == Some(to) {
            refuse(
                format!("links[{index}].to"),
                "must be another memory".to_owned(),
            );
        }
    }
    if issues.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(issues))
    }
}

const KEY_RULE: &str =
    "must be 1 to 128 characters, none of them a space at an end or a control character";

fn is_key(text: &str) -> bool {
    let length = text.chars().count();
    (1..=limits::MEMORY_KEY_MAX_CHARS).contains(&length)
        && text.trim() == text
        && !text.chars().any(char::is_control)
}

/// The key of a text without one.
fn key_of(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(text.trim().as_bytes());
    let hex: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("note-{hex}")
}

fn place(link: &MemoryLink) -> (String, String, String) {
    (link.from.clone(), link.relation.clone(), link.to.clone())
}

/// Links between two memories of the result.
fn between(
    links: impl Iterator<Item = MemoryLink>,
    memories: &[MemoryInfo],
) -> Vec<MemoryLinkInfo> {
    let shown: BTreeSet<&str> = memories.iter().map(|memory| memory.key.as_str()).collect();
    links
        .filter(|link| shown.contains(link.from.as_str()) && shown.contains(link.to.as_str()))
        .map(|link| MemoryLinkInfo {
            from: link.from,
            relation: link.relation,
            to: link.to,
        })
        .collect()
}

fn info(row: &MemoryRow) -> MemoryInfo {
    MemoryInfo {
        key: row.key.clone(),
        text: row.text.clone(),
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}
