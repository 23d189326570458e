//! Texts with sealed parts, listed and replaced when the master key changes.

use runloom_ports::store::{Resealed, RunNo, Sealed, SealedKey, SessionNo};

use crate::sql::{Malformed, Row, Statements, number, values};

/// Documents with their old versions, then sessions, then runs; each by number.
pub(super) async fn list<S: Statements>(
    statements: &S,
    (after, limit): &(Option<SealedKey>, usize),
) -> Result<Vec<Sealed>, S::Error> {
    let after = after.as_ref();
    let mut found = Vec::new();
    if matches!(after, None | Some(SealedKey::Document(..))) {
        let (no, version) = match after {
            Some(SealedKey::Document(no, version)) => (*no, number(*version)),
            _ => (0, 0),
        };
        let sql = "SELECT documents.no AS no, texts.version AS version, workspaces.slug AS workspace, kind,
                    documents.slug AS slug, texts.body AS text
             FROM (SELECT no AS document, version, body FROM documents
                   UNION ALL SELECT document, version, body FROM document_versions) AS texts
             JOIN documents ON documents.no = texts.document
             JOIN workspaces ON workspaces.no = documents.workspace
             WHERE (documents.no, texts.version) > ($1, $2)
             ORDER BY documents.no, texts.version LIMIT $3";
        let bound = values![no, version, room(*limit, &found)];
        for row in statements.query(sql, &bound).await? {
            found.push(document(&row)?);
        }
    }
    if !matches!(after, Some(SealedKey::Run(_))) {
        let no = match after {
            Some(SealedKey::Session(no)) => no.0,
            _ => 0,
        };
        let sql = "SELECT session_specs.session AS no, spec AS text
             FROM session_specs JOIN sessions ON sessions.no = session_specs.session
             WHERE session_specs.session > $1 AND sessions.ended_at IS NULL ORDER BY session_specs.session LIMIT $2";
        let bound = values![no, room(*limit, &found)];
        for row in statements.query(sql, &bound).await? {
            found.push(spec(&row, |no| SealedKey::Session(SessionNo(no)))?);
        }
    }
    let no = match after {
        Some(SealedKey::Run(no)) => no.0,
        _ => 0,
    };
    let sql = "SELECT run AS no, spec AS text FROM run_specs JOIN runs ON runs.no = run_specs.run
         WHERE run > $1 AND runs.completed_at IS NULL ORDER BY run LIMIT $2";
    let bound = values![no, room(*limit, &found)];
    for row in statements.query(sql, &bound).await? {
        found.push(spec(&row, |no| SealedKey::Run(RunNo(no)))?);
    }
    Ok(found)
}

fn room(limit: usize, found: &[Sealed]) -> i64 {
    number(limit.saturating_sub(found.len()))
}

fn document(row: &Row) -> Result<Sealed, Malformed> {
    let owner = (row.text("workspace")?, row.word("kind")?, row.text("slug")?);
    Ok(Sealed {
        key: SealedKey::Document(row.int("no")?, row.count("version")?),
        owner: Some(owner),
        text: row.text("text")?,
    })
}

fn spec(row: &Row, key: impl Fn(i64) -> SealedKey) -> Result<Sealed, Malformed> {
    Ok(Sealed {
        key: key(row.int("no")?),
        owner: None,
        text: row.text("text")?,
    })
}

/// Replaces texts that have not changed since they were listed; returns how many.
pub(super) async fn replace<S: Statements>(
    statements: &S,
    texts: &Vec<Resealed>,
) -> Result<usize, S::Error> {
    let mut replaced = 0;
    for Resealed { key, before, after } in texts {
        replaced += match key {
            SealedKey::Document(no, version) => {
                let bound = values![*no, number(*version), before, after];
                // A version is in one of the two tables; in the other nothing changes.
                let current =
                    "UPDATE documents SET body = $4 WHERE no = $1 AND version = $2 AND body = $3";
                let old = "UPDATE document_versions SET body = $4 WHERE document = $1 AND version = $2 AND body = $3";
                statements.execute(current, &bound).await? + statements.execute(old, &bound).await?
            }
            SealedKey::Session(no) => {
                let sql = "UPDATE session_specs SET spec = $3 WHERE session = $1 AND spec = $2";
                statements
                    .execute(sql, &values![no.0, before, after])
                    .await?
            }
            SealedKey::Run(no) => {
                let sql = "UPDATE run_specs SET spec = $3 WHERE run = $1 AND spec = $2";
                statements
                    .execute(sql, &values![no.0, before, after])
                    .await?
            }
        };
    }
    Ok(usize::try_from(replaced).unwrap_or(usize::MAX))
}
