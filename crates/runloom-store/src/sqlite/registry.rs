//! [`Registry`]: documents of workspaces.

use async_trait::async_trait;
use runloom_ports::store::{
    Deleted, Document, DocumentKind, Expect, Millis, Put, PutDocument, Registry, Resealed, Sealed,
    SealedKey, StoreResult, VERSIONS_KEPT, WorkspaceNo,
};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Unknown, Word};
use super::transaction::Tx;
use super::{SqliteStore, int, seals, uint};

#[async_trait]
impl Registry for SqliteStore {
    async fn put_document(&self, put: PutDocument) -> StoreResult<Put> {
        self.writer
            .run("put_document", move |tx| put_document(tx, &put))
            .await
    }

    async fn document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
    ) -> StoreResult<Option<Document>> {
        let name = id_or_slug.to_owned();
        self.read(move |connection| Ok(find(connection, workspace, kind, &name)?.map(|row| row.1)))
            .await
    }

    async fn document_version(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id: &str,
        version: u64,
    ) -> StoreResult<Option<Document>> {
        let id = id.to_owned();
        self.read(move |connection| {
                let Some((no, current)) = by_id(connection, workspace, kind, &id)? else {
                    return Ok(None);
                };
                if current.version == version {
                    return Ok(Some(current));
                }
                connection
                    .prepare_cached(
                        "SELECT body, updated_at FROM document_versions WHERE document = ?1 AND version = ?2",
                    )?
                    .query_row(params![no, int(version)], |row| {
                        Ok(Document {
                            version,
                            body: row.get(0)?,
                            updated_at: Millis(row.get(1)?),
                            ..current.clone()
                        })
                    })
                    .optional()
            })
            .await
    }

    async fn documents(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
    ) -> StoreResult<Vec<Document>> {
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT} WHERE workspace = ?1 AND kind = ?2 ORDER BY slug"
                ))?
                .query_map(params![workspace.0, kind.as_str()], |row| {
                    Ok(document(row)?.1)
                })?
                .collect()
        })
        .await
    }

    async fn providers_stamp(&self) -> StoreResult<String> {
        self.read(|connection| {
                connection
                    .prepare_cached(
                        "SELECT printf('%d.%d.%d.%d', count(*), sum(version), max(no), max(updated_at)) FROM documents
                         WHERE kind IN ('provider', 'secret')",
                    )?
                    .query_row([], |row| row.get(0))
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
        let name = id_or_slug.to_owned();
        self.writer
            .run("delete_document", move |tx| {
                let Some((no, found)) = find(tx.connection, workspace, kind, &name)? else {
                    return Ok(Deleted::Unknown);
                };
                if !expect.holds(Some((&found.id, found.version))) {
                    return Ok(Deleted::Mismatch);
                }
                tx.execute(
                    "DELETE FROM document_versions WHERE document = ?1",
                    params![no],
                )?;
                tx.execute("DELETE FROM documents WHERE no = ?1", params![no])?;
                Ok(Deleted::Gone)
            })
            .await
    }

    async fn sealed(&self, after: Option<SealedKey>, limit: usize) -> StoreResult<Vec<Sealed>> {
        self.read(move |connection| seals::list(connection, after.as_ref(), limit))
            .await
    }

    async fn reseal(&self, texts: Vec<Resealed>) -> StoreResult<usize> {
        self.writer
            .run("reseal", move |tx| seals::replace(tx, &texts))
            .await
    }

    async fn setting(&self, name: &str) -> StoreResult<Option<String>> {
        let name = name.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT value FROM settings WHERE name = ?1")?
                .query_row([&name], |row| row.get(0))
                .optional()
        })
        .await
    }

    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.writer
            .run("setting_or", move |tx| {
                tx.execute(
                    "INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                    params![name, value],
                )?;
                tx.connection
                    .prepare_cached("SELECT value FROM settings WHERE name = ?1")?
                    .query_row([&name], |row| row.get(0))
            })
            .await
    }

    async fn put_setting(&self, name: &str, value: &str) -> StoreResult<()> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.writer
            .run("put_setting", move |tx| {
                tx.execute(
                    "INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
                    params![name, value],
                )?;
                Ok(())
            })
            .await
    }
}

const SELECT: &str =
    "SELECT no, id, workspace, kind, slug, version, body, created_at, updated_at FROM documents";

/// Row number and document, from the columns of [`SELECT`].
fn document(row: &Row<'_>) -> rusqlite::Result<(i64, Document)> {
    let document = Document {
        id: row.get(1)?,
        workspace: WorkspaceNo(row.get(2)?),
        kind: row.get::<_, Word<DocumentKind>>(3)?.0,
        slug: row.get(4)?,
        version: uint(row.get(5)?),
        body: row.get(6)?,
        created_at: Millis(row.get(7)?),
        updated_at: Millis(row.get(8)?),
    };
    Ok((row.get(0)?, document))
}

fn by_id(
    connection: &Connection,
    workspace: WorkspaceNo,
    kind: DocumentKind,
    id: &str,
) -> rusqlite::Result<Option<(i64, Document)>> {
    connection
        .prepare_cached(&format!(
            "{SELECT} WHERE id = ?1 AND workspace = ?2 AND kind = ?3"
        ))?
        .query_row(params![id, workspace.0, kind.as_str()], document)
        .optional()
}

fn by_slug(
    connection: &Connection,
    workspace: WorkspaceNo,
    kind: DocumentKind,
    slug: &str,
) -> rusqlite::Result<Option<(i64, Document)>> {
    connection
        .prepare_cached(&format!(
            "{SELECT} WHERE workspace = ?1 AND kind = ?2 AND slug = ?3"
        ))?
        .query_row(params![workspace.0, kind.as_str(), slug], document)
        .optional()
}

fn find(
    connection: &Connection,
    workspace: WorkspaceNo,
    kind: DocumentKind,
    id_or_slug: &str,
) -> rusqlite::Result<Option<(i64, Document)>> {
    match by_id(connection, workspace, kind, id_or_slug)? {
        Some(found) => Ok(Some(found)),
        None => by_slug(connection, workspace, kind, id_or_slug),
    }
}

fn put_document(tx: &Tx<'_>, put: &PutDocument) -> rusqlite::Result<Put> {
    let found = by_slug(tx.connection, put.workspace, put.kind, &put.slug)?;
    let known = found
        .as_ref()
        .map(|(_, old)| (old.id.as_str(), old.version));
    if !put.expect.holds(known) {
        return Ok(Put::Mismatch);
    }
    match found {
        Some((no, old)) => replace(tx, put, no, old).map(Put::Replaced),
        None => create(tx, put),
    }
}

fn create(tx: &Tx<'_>, put: &PutDocument) -> rusqlite::Result<Put> {
    let count: i64 = tx
        .connection
        .prepare_cached("SELECT count(*) FROM documents WHERE workspace = ?1 AND kind = ?2")?
        .query_row(params![put.workspace.0, put.kind.as_str()], |row| {
            row.get(0)
        })?;
    if uint(count) >= put.limit as u64 {
        return Ok(Put::Full);
    }
    tx.execute(
        "INSERT INTO documents (id, workspace, kind, slug, version, body, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?6)",
        params![
            put.id,
            put.workspace.0,
            put.kind.as_str(),
            put.slug,
            put.body,
            put.now.0
        ],
    )?;
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

fn replace(tx: &Tx<'_>, put: &PutDocument, no: i64, old: Document) -> rusqlite::Result<Document> {
    let version = old.version + 1;
    if put.kind.keeps_versions() {
        tx.execute(
            "INSERT INTO document_versions (document, version, body, updated_at) VALUES (?1, ?2, ?3, ?4)",
            params![no, int(old.version), old.body, old.updated_at.0],
        )?;
        tx.execute(
            "DELETE FROM document_versions WHERE document = ?1 AND version < ?2",
            params![no, int(version.saturating_sub(VERSIONS_KEPT))],
        )?;
    }
    tx.execute(
        "UPDATE documents SET version = ?2, body = ?3, updated_at = ?4 WHERE no = ?1",
        params![no, int(version), put.body, put.now.0],
    )?;
    Ok(Document {
        version,
        body: put.body.clone(),
        updated_at: put.now,
        ..old
    })
}

impl FromSql for Word<DocumentKind> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        DocumentKind::parse(text).map(Self).ok_or_else(|| {
            FromSqlError::other(Unknown {
                kind: "DocumentKind",
                text: text.to_owned(),
            })
        })
    }
}
