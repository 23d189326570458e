//! [`People`]: who can sign in, and where they belong.

use async_trait::async_trait;
use runloom_ports::store::{Millis, People, PersonRow, PutPerson, StoreResult, WorkspaceNo};
use runloom_protocol::id::PersonId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::columns::Word;
use super::tenancy::{WORKSPACE, workspace_row};
use super::transaction::Tx;

#[async_trait]
impl People for SqliteStore {
    async fn put_person(&self, person: PutPerson, now: Millis) -> StoreResult<Option<PersonRow>> {
        self.writer
            .run("put_person", move |tx| put_person(tx, &person, now))
            .await
    }

    async fn person(&self, id: &PersonId) -> StoreResult<Option<PersonRow>> {
        let id = id.clone();
        self.read(move |connection| find(connection, "id", id.as_str()))
            .await
    }

    async fn person_by_email(&self, email: &str) -> StoreResult<Option<PersonRow>> {
        let email = email.to_owned();
        self.read(move |connection| find(connection, "email", &email))
            .await
    }

    async fn people(&self) -> StoreResult<Vec<PersonRow>> {
        self.read(|connection| {
            let mut people: Vec<PersonRow> = connection
                .prepare_cached(&format!("SELECT {PERSON} FROM people ORDER BY email"))?
                .query_map([], person_row)?
                .collect::<rusqlite::Result<_>>()?;
            for person in &mut people {
                add_workspaces(connection, person)?;
            }
            Ok(people)
        })
        .await
    }

    async fn delete_person(&self, id: &PersonId) -> StoreResult<bool> {
        let id = id.clone();
        self.writer
            .run("delete_person", move |tx| {
                let gone = tx.execute("DELETE FROM people WHERE id = ?1", params![id.as_str()])?;
                Ok(gone > 0)
            })
            .await
    }
}

const PERSON: &str = "id, email, name, password, password_at, created_at";

fn person_row(row: &Row<'_>) -> rusqlite::Result<PersonRow> {
    Ok(PersonRow {
        id: row.get::<_, Word<PersonId>>("id")?.0,
        email: row.get("email")?,
        name: row.get("name")?,
        password: row.get("password")?,
        password_at: Millis(row.get("password_at")?),
        workspaces: Vec::new(),
        created_at: Millis(row.get("created_at")?),
    })
}

fn find(
    connection: &Connection,
    column: &'static str,
    value: &str,
) -> rusqlite::Result<Option<PersonRow>> {
    let found = connection
        .prepare_cached(&format!("SELECT {PERSON} FROM people WHERE {column} = ?1"))?
        .query_row([value], person_row)
        .optional()?;
    let Some(mut person) = found else {
        return Ok(None);
    };
    add_workspaces(connection, &mut person)?;
    Ok(Some(person))
}

fn add_workspaces(connection: &Connection, person: &mut PersonRow) -> rusqlite::Result<()> {
    person.workspaces = connection
        .prepare_cached(&format!(
            "SELECT {WORKSPACE} FROM memberships JOIN workspaces ON workspaces.no = memberships.workspace
             WHERE memberships.person = ?1 ORDER BY workspaces.slug"
        ))?
        .query_map([person.id.as_str()], workspace_row)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(())
}

fn put_person(tx: &Tx<'_>, person: &PutPerson, now: Millis) -> rusqlite::Result<Option<PersonRow>> {
    let known = find(tx.connection, "email", &person.email)?;
    let id = match (&known, &person.password) {
        (None, None) => return Ok(None),
        (Some(known), _) => known.id.clone(),
        (None, Some(password)) => {
            tx.execute(
                "INSERT INTO people (id, email, name, password, password_at, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
                params![
                    person.id.as_str(),
                    person.email,
                    person.name.as_deref().unwrap_or_default(),
                    password,
                    now.0
                ],
            )?;
            person.id.clone()
        }
    };
    if known.is_some() {
        if let Some(name) = &person.name {
            let sql = "UPDATE people SET name = ?2 WHERE id = ?1";
            tx.execute(sql, params![id.as_str(), name])?;
        }
        if let Some(password) = &person.password {
            let sql = "UPDATE people SET password = ?2, password_at = ?3 WHERE id = ?1";
            tx.execute(sql, params![id.as_str(), password, now.0])?;
        }
    }
    if let Some(workspaces) = &person.workspaces {
        let before = known.map(|known| known.workspaces).unwrap_or_default();
        let left = before
            .iter()
            .map(|row| row.no)
            .filter(|no| !workspaces.contains(no));
        for workspace in left {
            leave(tx, &id, workspace)?;
        }
        for workspace in workspaces {
            tx.execute(
                "INSERT INTO memberships (person, workspace) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![id.as_str(), workspace.0],
            )?;
        }
    }
    find(tx.connection, "email", &person.email)
}

fn leave(tx: &Tx<'_>, person: &PersonId, workspace: WorkspaceNo) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM memberships WHERE person = ?1 AND workspace = ?2",
        "DELETE FROM oauth_codes WHERE person = ?1 AND workspace = ?2",
        "DELETE FROM oauth_grants WHERE person = ?1 AND workspace = ?2",
    ] {
        tx.execute(sql, params![person.as_str(), workspace.0])?;
    }
    Ok(())
}
