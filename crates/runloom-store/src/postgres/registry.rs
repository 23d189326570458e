//! [`Registry`]: documents of workspaces.

use async_trait::async_trait;
use runloom_ports::store::{
    Deleted, Document, DocumentKind, Expect, Put, PutDocument, Registry, Resealed, Sealed,
    SealedKey, StoreResult, VERSIONS_KEPT, WorkspaceNo,
};
use tokio_postgres::Row;

use super::columns::{get_text, get_time, get_word, text};
use super::error::Failure;
use super::pool::{Session, no_row};
use super::{Notice, PostgresStore, seals};

#[async_trait]
impl Registry for PostgresStore {
    async fn put_document(&self, put: PutDocument) -> StoreResult<Put> {
        let put = &put;
        let stored = self
            .pool
            .transact("put_document", |session| async move {
                put_document(&session, put).await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        Ok(stored)
    }

    async fn document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
    ) -> StoreResult<Option<Document>> {
        self.pool
            .read(|session| async move {
                let found = find(&session, workspace, kind, id_or_slug, Lock::None).await?;
                Ok(found.map(|(_, document)| document))
            })
            .await
    }

    async fn document_version(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id: &str,
        version: u64,
    ) -> StoreResult<Option<Document>> {
        self.pool
            .read(|session| async move {
                let Some((no, current)) = by_id(&session, workspace, kind, id, Lock::None).await?
                else {
                    return Ok(None);
                };
                if current.version == version {
                    return Ok(Some(current));
                }
                let sql = "SELECT body, updated_at FROM document_versions WHERE document = $1 AND version = $2";
                let Some(row) = session.first(sql, &[&no, &number(version)]).await? else {
                    return Ok(None);
                };
                Ok(Some(Document {
                    version,
                    body: get_text(&row, "body")?,
                    updated_at: get_time(&row, "updated_at")?,
                    ..current
                }))
            })
            .await
    }

    async fn documents(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
    ) -> StoreResult<Vec<Document>> {
        let sql =
            &format!("{SELECT} WHERE workspace = $1 AND kind = $2 ORDER BY slug COLLATE \"C\"");
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&workspace.0, &kind.as_str()]).await?;
                rows.iter().map(|row| Ok(document(row)?.1)).collect()
            })
            .await
    }

    async fn providers_stamp(&self) -> StoreResult<String> {
        let sql =
            "SELECT concat_ws('.', count(*), sum(version), max(no), max(updated_at)) FROM documents
                   WHERE kind IN ('provider', 'secret')";
        self.pool
            .read(|session| async move {
                let row = session.first(sql, &[]).await?;
                row.map_or(Ok(String::new()), |row| Ok(row.try_get(0)?))
            })
            .await
    }

    async fn delete_document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
        expect: Expect,
    ) -> StoreResult<Deleted> {
        let expect = &expect;
        let deleted = self
            .pool
            .transact("delete_document", |session| async move {
                let found = find(&session, workspace, kind, id_or_slug, Lock::Row).await?;
                let Some((no, found)) = found else {
                    return Ok(Deleted::Unknown);
                };
                if !expect.holds(Some((&found.id, found.version))) {
                    return Ok(Deleted::Mismatch);
                }
                let old = "DELETE FROM document_versions WHERE document = $1";
                session.execute(old, &[&no]).await?;
                session
                    .execute("DELETE FROM documents WHERE no = $1", &[&no])
                    .await?;
                Ok(Deleted::Gone)
            })
            .await?;
        self.writer.notify(Notice::Registry);
        Ok(deleted)
    }

    async fn sealed(&self, after: Option<SealedKey>, limit: usize) -> StoreResult<Vec<Sealed>> {
        let after = &after;
        self.pool
            .read(|session| async move { seals::list(&session, after.as_ref(), limit).await })
            .await
    }

    async fn reseal(&self, texts: Vec<Resealed>) -> StoreResult<usize> {
        let texts = &texts;
        let replaced = self
            .pool
            .transact("reseal", |session| async move {
                seals::replace(&session, texts).await
            })
            .await?;
        Ok(replaced)
    }

    async fn setting(&self, name: &str) -> StoreResult<Option<String>> {
        self.pool
            .read(|session| async move { setting(&session, name).await })
            .await
    }

    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String> {
        let kept = self
            .pool
            .transact("setting_or", |session| async move {
                let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
                session.execute(sql, &[&text(name), &text(value)]).await?;
                setting(&session, name).await
            })
            .await?;
        kept.ok_or_else(|| no_row("setting that was just put"))
    }

    async fn put_setting(&self, name: &str, value: &str) -> StoreResult<()> {
        let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2";
        self.pool
            .transact("put_setting", |session| async move {
                session.execute(sql, &[&text(name), &text(value)]).await
            })
            .await?;
        Ok(())
    }
}

/// Whether a row is kept from others until the transaction ends.
#[derive(Clone, Copy)]
enum Lock {
    None,
    Row,
}

impl Lock {
    fn clause(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Row => " FOR UPDATE",
        }
    }
}

const SELECT: &str =
    "SELECT no, id, workspace, kind, slug, version, body, created_at, updated_at FROM documents";

/// A version or a count as a column holds it.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A version or a count as a column held it.
pub(super) fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Row number and document, from the columns of [`SELECT`].
fn document(row: &Row) -> Result<(i64, Document), Failure> {
    let document = Document {
        id: get_text(row, "id")?,
        workspace: WorkspaceNo(row.try_get("workspace")?),
        kind: get_word(row, "kind")?,
        slug: get_text(row, "slug")?,
        version: count(row.try_get("version")?),
        body: get_text(row, "body")?,
        created_at: get_time(row, "created_at")?,
        updated_at: get_time(row, "updated_at")?,
    };
    Ok((row.try_get("no")?, document))
}

async fn setting(session: &Session, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT value FROM settings WHERE name = $1";
    let row = session.first(sql, &[&text(name)]).await?;
    row.as_ref().map(|row| get_text(row, "value")).transpose()
}

async fn by_id(
    session: &Session,
    workspace: WorkspaceNo,
    kind: DocumentKind,
    id: &str,
    lock: Lock,
) -> Result<Option<(i64, Document)>, Failure> {
    let sql = format!(
        "{SELECT} WHERE id = $1 AND workspace = $2 AND kind = $3{}",
        lock.clause()
    );
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&text(id), &workspace.0, &kind.as_str()];
    let row = session.first(&sql, &values).await?;
    row.as_ref().map(document).transpose()
}

async fn by_slug(
    session: &Session,
    workspace: WorkspaceNo,
    kind: DocumentKind,
    slug: &str,
    lock: Lock,
) -> Result<Option<(i64, Document)>, Failure> {
    let sql = format!(
        "{SELECT} WHERE workspace = $1 AND kind = $2 AND slug = $3{}",
        lock.clause()
    );
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&workspace.0, &kind.as_str(), &text(slug)];
    let row = session.first(&sql, &values).await?;
    row.as_ref().map(document).transpose()
}

async fn find(
    session: &Session,
    workspace: WorkspaceNo,
    kind: DocumentKind,
    id_or_slug: &str,
    lock: Lock,
) -> Result<Option<(i64, Document)>, Failure> {
    match by_id(session, workspace, kind, id_or_slug, lock).await? {
        Some(found) => Ok(Some(found)),
        None => by_slug(session, workspace, kind, id_or_slug, lock).await,
    }
}

async fn put_document(session: &Session, put: &PutDocument) -> Result<Put, Failure> {
    // Puts of one workspace wait for each other: a slug that is not there yet has no row to lock.
    let workspace = "SELECT no FROM workspaces WHERE no = $1 FOR UPDATE";
    session.execute(workspace, &[&put.workspace.0]).await?;
    let found = by_slug(session, put.workspace, put.kind, &put.slug, Lock::Row).await?;
    let known = found
        .as_ref()
        .map(|(_, old)| (old.id.as_str(), old.version));
    if !put.expect.holds(known) {
        return Ok(Put::Mismatch);
    }
    match found {
        Some((no, old)) => replace(session, put, no, old).await.map(Put::Replaced),
        None => create(session, put).await,
    }
}

async fn create(session: &Session, put: &PutDocument) -> Result<Put, Failure> {
    let sql = "SELECT count(*) AS documents FROM documents WHERE workspace = $1 AND kind = $2";
    let there = session
        .first(sql, &[&put.workspace.0, &put.kind.as_str()])
        .await?;
    let there = match there {
        Some(row) => count(row.try_get("documents")?),
        None => 0,
    };
    if there >= put.limit as u64 {
        return Ok(Put::Full);
    }
    let sql =
        "INSERT INTO documents (id, workspace, kind, slug, version, body, created_at, updated_at)
         VALUES ($1, $2, $3, $4, 1, $5, $6, $6)";
    let kind = put.kind.as_str();
    let (id, slug, body) = (text(&put.id), text(&put.slug), text(&put.body));
    session
        .execute(
            sql,
            &[&id, &put.workspace.0, &kind, &slug, &body, &put.now.0],
        )
        .await?;
    Ok(Put::Created(Document {
        id: put.id.clone(),
        slug: put.slug.clone(),
        kind: put.kind,
        workspace: put.workspace,
        version: 1,
        body: put.body.clone(),
        created_at: put.now,
        updated_at: put.now,
    }))
}

async fn replace(
    session: &Session,
    put: &PutDocument,
    no: i64,
    old: Document,
) -> Result<Document, Failure> {
    let version = old.version + 1;
    if put.kind.keeps_versions() {
        let keep = "INSERT INTO document_versions (document, version, body, updated_at) VALUES ($1, $2, $3, $4)";
        let was = number(old.version);
        session
            .execute(keep, &[&no, &was, &text(&old.body), &old.updated_at.0])
            .await?;
        let forget = "DELETE FROM document_versions WHERE document = $1 AND version < $2";
        let oldest = number(version.saturating_sub(VERSIONS_KEPT));
        session.execute(forget, &[&no, &oldest]).await?;
    }
    let sql = "UPDATE documents SET version = $2, body = $3, updated_at = $4 WHERE no = $1";
    session
        .execute(sql, &[&no, &number(version), &text(&put.body), &put.now.0])
        .await?;
    Ok(Document {
        version,
        body: put.body.clone(),
        updated_at: put.now,
        ..old
    })
}
