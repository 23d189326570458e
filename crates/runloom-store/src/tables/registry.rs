//! [`Registry`]: documents of workspaces, and settings of the installation.

use runloom_ports::store::{
    Deleted, Document, DocumentKind, Expect, Put, PutDocument, Registry, Resealed, Sealed,
    SealedKey, StoreResult, VERSIONS_KEPT, WorkspaceNo,
};

use super::tenancy::missing;
use super::{on_both, sealed_texts, work};
use crate::sql::{Malformed, Row, Statements, number, values};

on_both! { impl Registry {
    async fn put_document(&self, put: PutDocument) -> StoreResult<Put> {
        self.write_cached("put_document", put, work!(put_document)).await
    }

    async fn document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
    ) -> StoreResult<Option<Document>> {
        let name = Name { workspace, kind, id_or_slug: id_or_slug.to_owned() };
        self.read_tables(name, work!(document)).await
    }

    async fn document_version(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id: &str,
        version: u64,
    ) -> StoreResult<Option<Document>> {
        let name = Name { workspace, kind, id_or_slug: id.to_owned() };
        self.read_tables((name, version), work!(document_version)).await
    }

    async fn documents(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
    ) -> StoreResult<Vec<Document>> {
        self.read_tables((workspace, kind), work!(documents)).await
    }

    async fn providers_stamp(&self) -> StoreResult<String> {
        self.read_tables((), work!(providers_stamp)).await
    }

    async fn delete_document(
        &self,
        workspace: WorkspaceNo,
        kind: DocumentKind,
        id_or_slug: &str,
        expect: Expect,
    ) -> StoreResult<Deleted> {
        let name = Name { workspace, kind, id_or_slug: id_or_slug.to_owned() };
        self.write_cached("delete_document", (name, expect), work!(delete_document)).await
    }

    async fn sealed(&self, after: Option<SealedKey>, limit: usize) -> StoreResult<Vec<Sealed>> {
        self.read_tables((after, limit), work!(sealed_texts::list)).await
    }

    async fn reseal(&self, texts: Vec<Resealed>) -> StoreResult<usize> {
        self.write_tables("reseal", texts, work!(sealed_texts::replace)).await
    }

    async fn setting(&self, name: &str) -> StoreResult<Option<String>> {
        self.read_tables(name.to_owned(), work!(setting)).await
    }

    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String> {
        let pair = (name.to_owned(), value.to_owned());
        self.write_tables("setting_or", pair, work!(setting_or)).await
    }

    async fn put_setting(&self, name: &str, value: &str) -> StoreResult<()> {
        let pair = (name.to_owned(), value.to_owned());
        self.write_tables("put_setting", pair, work!(put_setting)).await
    }
} }

/// Names one document of a workspace.
struct Name {
    workspace: WorkspaceNo,
    kind: DocumentKind,
    id_or_slug: String,
}

/// A document with its row number.
struct Stored {
    no: i64,
    document: Document,
}

/// Whether a row is locked until the transaction ends.
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

fn stored(row: &Row) -> Result<Stored, Malformed> {
    let document = Document {
        id: row.text("id")?,
        workspace: row.workspace("workspace")?,
        kind: row.word("kind")?,
        slug: row.text("slug")?,
        version: row.count("version")?,
        body: row.text("body")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    };
    Ok(Stored {
        no: row.int("no")?,
        document,
    })
}

async fn by_id<S: Statements>(
    statements: &S,
    name: &Name,
    lock: Lock,
) -> Result<Option<Stored>, S::Error> {
    let sql = format!(
        "{SELECT} WHERE id = $1 AND workspace = $2 AND kind = $3{}",
        lock.clause()
    );
    let bound = values![&name.id_or_slug, name.workspace, name.kind.as_str()];
    let row = statements.first(&sql, &bound).await?;
    Ok(row.as_ref().map(stored).transpose()?)
}

async fn by_slug<S: Statements>(
    statements: &S,
    name: &Name,
    lock: Lock,
) -> Result<Option<Stored>, S::Error> {
    let sql = format!(
        "{SELECT} WHERE workspace = $1 AND kind = $2 AND slug = $3{}",
        lock.clause()
    );
    let bound = values![name.workspace, name.kind.as_str(), &name.id_or_slug];
    let row = statements.first(&sql, &bound).await?;
    Ok(row.as_ref().map(stored).transpose()?)
}

async fn find<S: Statements>(
    statements: &S,
    name: &Name,
    lock: Lock,
) -> Result<Option<Stored>, S::Error> {
    match by_id(statements, name, lock).await? {
        Some(found) => Ok(Some(found)),
        None => by_slug(statements, name, lock).await,
    }
}

async fn document<S: Statements>(
    statements: &S,
    name: &Name,
) -> Result<Option<Document>, S::Error> {
    let found = find(statements, name, Lock::None).await?;
    Ok(found.map(|found| found.document))
}

async fn document_version<S: Statements>(
    statements: &S,
    (name, version): &(Name, u64),
) -> Result<Option<Document>, S::Error> {
    let Some(current) = by_id(statements, name, Lock::None).await? else {
        return Ok(None);
    };
    if current.document.version == *version {
        return Ok(Some(current.document));
    }
    let sql = "SELECT body, updated_at FROM document_versions WHERE document = $1 AND version = $2";
    let row = statements
        .first(sql, &values![current.no, number(*version)])
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(Some(Document {
        version: *version,
        body: row.text("body")?,
        updated_at: row.time("updated_at")?,
        ..current.document
    }))
}

async fn documents<S: Statements>(
    statements: &S,
    (workspace, kind): &(WorkspaceNo, DocumentKind),
) -> Result<Vec<Document>, S::Error> {
    let sql = format!("{SELECT} WHERE workspace = $1 AND kind = $2 ORDER BY slug COLLATE \"C\"");
    let rows = statements
        .query(&sql, &values![*workspace, kind.as_str()])
        .await?;
    let document = |row: &Row| Ok(stored(row)?.document);
    Ok(rows
        .iter()
        .map(document)
        .collect::<Result<_, Malformed>>()?)
}

async fn providers_stamp<S: Statements>(statements: &S, (): &()) -> Result<String, S::Error> {
    let sql = "SELECT concat_ws('.', count(*), sum(version), max(no), max(updated_at)) AS stamp
               FROM documents WHERE kind IN ('provider', 'secret')";
    let row = statements.first(sql, &[]).await?;
    Ok(row.map_or(Ok(String::new()), |row| row.text("stamp"))?)
}

async fn delete_document<S: Statements>(
    statements: &S,
    (name, expect): &(Name, Expect),
) -> Result<Deleted, S::Error> {
    let Some(found) = find(statements, name, Lock::Row).await? else {
        return Ok(Deleted::Unknown);
    };
    if !expect.holds(Some((&found.document.id, found.document.version))) {
        return Ok(Deleted::Mismatch);
    }
    for sql in [
        "DELETE FROM document_versions WHERE document = $1",
        "DELETE FROM documents WHERE no = $1",
    ] {
        statements.execute(sql, &values![found.no]).await?;
    }
    Ok(Deleted::Gone)
}

async fn put_document<S: Statements>(statements: &S, put: &PutDocument) -> Result<Put, S::Error> {
    // Puts of one workspace happen one after the other: a slug that does not exist yet has no row to lock.
    let lock = "SELECT no FROM workspaces WHERE no = $1 FOR UPDATE";
    statements.query(lock, &values![put.workspace]).await?;
    let name = Name {
        workspace: put.workspace,
        kind: put.kind,
        id_or_slug: put.slug.clone(),
    };
    let found = by_slug(statements, &name, Lock::Row).await?;
    let known = found
        .as_ref()
        .map(|old| (old.document.id.as_str(), old.document.version));
    if !put.expect.holds(known) {
        return Ok(Put::Mismatch);
    }
    match found {
        Some(old) => replace(statements, put, old).await.map(Put::Replaced),
        None => create(statements, put).await,
    }
}

async fn create<S: Statements>(statements: &S, put: &PutDocument) -> Result<Put, S::Error> {
    let kind = put.kind.as_str();
    let sql = "SELECT count(*) AS found FROM documents WHERE workspace = $1 AND kind = $2";
    let row = statements.first(sql, &values![put.workspace, kind]).await?;
    let there = row.map_or(Ok(0), |row| row.count("found"))?;
    if there >= put.limit as u64 {
        return Ok(Put::Full);
    }
    let sql =
        "INSERT INTO documents (id, workspace, kind, slug, version, body, created_at, updated_at)
         VALUES ($1, $2, $3, $4, 1, $5, $6, $6)";
    let bound = values![&put.id, put.workspace, kind, &put.slug, &put.body, put.now];
    statements.execute(sql, &bound).await?;
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

async fn replace<S: Statements>(
    statements: &S,
    put: &PutDocument,
    old: Stored,
) -> Result<Document, S::Error> {
    let Stored { no, document: old } = old;
    let version = old.version + 1;
    if put.kind.keeps_versions() {
        let sql = "INSERT INTO document_versions (document, version, body, updated_at) VALUES ($1, $2, $3, $4)";
        let bound = values![no, number(old.version), &old.body, old.updated_at];
        statements.execute(sql, &bound).await?;
        let sql = "DELETE FROM document_versions WHERE document = $1 AND version < $2";
        let oldest = number(version.saturating_sub(VERSIONS_KEPT));
        statements.execute(sql, &values![no, oldest]).await?;
    }
    let sql = "UPDATE documents SET version = $2, body = $3, updated_at = $4 WHERE no = $1";
    let bound = values![no, number(version), &put.body, put.now];
    statements.execute(sql, &bound).await?;
    Ok(Document {
        version,
        body: put.body.clone(),
        updated_at: put.now,
        ..old
    })
}

async fn setting<S: Statements>(statements: &S, name: &String) -> Result<Option<String>, S::Error> {
    let sql = "SELECT value FROM settings WHERE name = $1";
    let row = statements.first(sql, &values![name]).await?;
    Ok(row.map(|row| row.text("value")).transpose()?)
}

async fn setting_or<S: Statements>(
    statements: &S,
    (name, value): &(String, String),
) -> Result<String, S::Error> {
    let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    statements.execute(sql, &values![name, value]).await?;
    let kept = setting(statements, name).await?;
    Ok(kept.ok_or_else(|| missing("settings"))?)
}

async fn put_setting<S: Statements>(
    statements: &S,
    (name, value): &(String, String),
) -> Result<(), S::Error> {
    let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2";
    statements.execute(sql, &values![name, value]).await?;
    Ok(())
}
