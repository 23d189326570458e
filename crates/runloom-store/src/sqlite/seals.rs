//! Texts with sealed parts, listed and replaced when the master key changes.

use runloom_ports::store::{DocumentKind, Resealed, RunNo, Sealed, SealedKey, SessionNo};
use rusqlite::{Connection, Row, params};

use super::columns::Word;
use super::transaction::Tx;
use super::{int, uint};

/// Documents with their old versions, then sessions, then runs; each by number.
pub(super) fn list(
    connection: &Connection,
    after: Option<&SealedKey>,
    limit: usize,
) -> rusqlite::Result<Vec<Sealed>> {
    let mut found = Vec::new();
    if matches!(after, None | Some(SealedKey::Document(..))) {
        let (no, version) = match after {
            Some(SealedKey::Document(no, version)) => (*no, int(*version)),
            _ => (0, 0),
        };
        let sql =
            "SELECT documents.no, texts.version, workspaces.slug, kind, documents.slug, texts.body
             FROM (SELECT no AS document, version, body FROM documents
                   UNION ALL SELECT document, version, body FROM document_versions) AS texts
             JOIN documents ON documents.no = texts.document
             JOIN workspaces ON workspaces.no = documents.workspace
             WHERE (documents.no, texts.version) > (?1, ?2)
             ORDER BY documents.no, texts.version LIMIT ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![no, version, room(limit, &found)], document)?;
        found = rows.collect::<rusqlite::Result<_>>()?;
    }
    if !matches!(after, Some(SealedKey::Run(_))) {
        let no = match after {
            Some(SealedKey::Session(no)) => no.0,
            _ => 0,
        };
        let sql = "SELECT session_specs.session, spec FROM session_specs JOIN sessions ON sessions.no = session_specs.session
             WHERE session_specs.session > ?1 AND sessions.ended_at IS NULL ORDER BY session_specs.session LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![no, room(limit, &found)], |row| {
            spec(row, |no| SealedKey::Session(SessionNo(no)))
        })?;
        let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
        found.extend(rows);
    }
    let no = match after {
        Some(SealedKey::Run(no)) => no.0,
        _ => 0,
    };
    let sql = "SELECT run, spec FROM run_specs JOIN runs ON runs.no = run_specs.run
         WHERE run > ?1 AND runs.completed_at IS NULL ORDER BY run LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![no, room(limit, &found)], |row| {
        spec(row, |no| SealedKey::Run(RunNo(no)))
    })?;
    let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    found.extend(rows);
    Ok(found)
}

fn room(limit: usize, found: &[Sealed]) -> i64 {
    int(limit.saturating_sub(found.len()) as u64)
}

fn document(row: &Row<'_>) -> rusqlite::Result<Sealed> {
    let kind = row.get::<_, Word<DocumentKind>>(3)?.0;
    Ok(Sealed {
        key: SealedKey::Document(row.get(0)?, uint(row.get(1)?)),
        owner: Some((row.get(2)?, kind, row.get(4)?)),
        text: row.get(5)?,
    })
}

fn spec(row: &Row<'_>, key: impl Fn(i64) -> SealedKey) -> rusqlite::Result<Sealed> {
    Ok(Sealed {
        key: key(row.get(0)?),
        owner: None,
        text: row.get(1)?,
    })
}

pub(super) fn replace(tx: &Tx<'_>, texts: &[Resealed]) -> rusqlite::Result<usize> {
    let mut replaced = 0;
    for text in texts {
        let (before, after) = (&text.before, &text.after);
        replaced += match &text.key {
            SealedKey::Document(no, version) => {
                // A version stands in one of the two tables; where it does not, nothing changes.
                let place = params![no, int(*version), before, after];
                let current = tx.execute(
                    "UPDATE documents SET body = ?4 WHERE no = ?1 AND version = ?2 AND body = ?3",
                    place,
                )?;
                let old = tx.execute(
                    "UPDATE document_versions SET body = ?4 WHERE document = ?1 AND version = ?2 AND body = ?3",
                    place,
                )?;
                current + old
            }
            SealedKey::Session(no) => tx.execute(
                "UPDATE session_specs SET spec = ?3 WHERE session = ?1 AND spec = ?2",
                params![no.0, before, after],
            )?,
            SealedKey::Run(no) => tx.execute(
                "UPDATE run_specs SET spec = ?3 WHERE run = ?1 AND spec = ?2",
                params![no.0, before, after],
            )?,
        };
    }
    Ok(replaced)
}
