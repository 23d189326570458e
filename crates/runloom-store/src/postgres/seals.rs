//! Texts with sealed parts, listed and replaced when the master key changes.

use runloom_ports::store::{Resealed, RunNo, Sealed, SealedKey, SessionNo};
use tokio_postgres::Row;

use super::columns::{get_text, get_word, text};
use super::error::Failure;
use super::pool::Session;
use super::registry::{count, number};

/// Documents with their old versions, then sessions, then runs; each by number.
pub(super) async fn list(
    session: &Session,
    after: Option<&SealedKey>,
    limit: usize,
) -> Result<Vec<Sealed>, Failure> {
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
        let rows = session
            .query(sql, &[&no, &version, &room(limit, &found)])
            .await?;
        found = rows.iter().map(document).collect::<Result<_, _>>()?;
    }
    if !matches!(after, Some(SealedKey::Run(_))) {
        let no = match after {
            Some(SealedKey::Session(no)) => no.0,
            _ => 0,
        };
        let sql = "SELECT session_specs.session AS no, spec AS text
             FROM session_specs JOIN sessions ON sessions.no = session_specs.session
             WHERE session_specs.session > $1 AND sessions.ended_at IS NULL ORDER BY session_specs.session LIMIT $2";
        for row in session.query(sql, &[&no, &room(limit, &found)]).await? {
            found.push(spec(&row, |no| SealedKey::Session(SessionNo(no)))?);
        }
    }
    let no = match after {
        Some(SealedKey::Run(no)) => no.0,
        _ => 0,
    };
    let sql = "SELECT run AS no, spec AS text FROM run_specs JOIN runs ON runs.no = run_specs.run
         WHERE run > $1 AND runs.completed_at IS NULL ORDER BY run LIMIT $2";
    for row in session.query(sql, &[&no, &room(limit, &found)]).await? {
        found.push(spec(&row, |no| SealedKey::Run(RunNo(no)))?);
    }
    Ok(found)
}

fn room(limit: usize, found: &[Sealed]) -> i64 {
    number(limit.saturating_sub(found.len()) as u64)
}

fn document(row: &Row) -> Result<Sealed, Failure> {
    let owner = (
        get_text(row, "workspace")?,
        get_word(row, "kind")?,
        get_text(row, "slug")?,
    );
    Ok(Sealed {
        key: SealedKey::Document(row.try_get("no")?, count(row.try_get("version")?)),
        owner: Some(owner),
        text: get_text(row, "text")?,
    })
}

fn spec(row: &Row, key: impl Fn(i64) -> SealedKey) -> Result<Sealed, Failure> {
    Ok(Sealed {
        key: key(row.try_get("no")?),
        owner: None,
        text: get_text(row, "text")?,
    })
}

pub(super) async fn replace(session: &Session, texts: &[Resealed]) -> Result<usize, Failure> {
    let mut replaced = 0;
    for sealed in texts {
        let (before, after) = (text(&sealed.before), text(&sealed.after));
        replaced += match &sealed.key {
            SealedKey::Document(no, version) => {
                let version = number(*version);
                // A version stands in one of the two tables; where it does not, nothing changes.
                let current =
                    "UPDATE documents SET body = $4 WHERE no = $1 AND version = $2 AND body = $3";
                let old = "UPDATE document_versions SET body = $4 WHERE document = $1 AND version = $2 AND body = $3";
                session
                    .execute(current, &[no, &version, &before, &after])
                    .await?
                    + session
                        .execute(old, &[no, &version, &before, &after])
                        .await?
            }
            SealedKey::Session(no) => {
                let sql = "UPDATE session_specs SET spec = $3 WHERE session = $1 AND spec = $2";
                session.execute(sql, &[&no.0, &before, &after]).await?
            }
            SealedKey::Run(no) => {
                let sql = "UPDATE run_specs SET spec = $3 WHERE run = $1 AND spec = $2";
                session.execute(sql, &[&no.0, &before, &after]).await?
            }
        };
    }
    Ok(usize::try_from(replaced).unwrap_or(usize::MAX))
}
