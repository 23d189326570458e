//! [`People`]: who can sign in, and where they belong.

use async_trait::async_trait;
use runloom_ports::store::{Millis, People, PersonRow, PutPerson, StoreResult};
use runloom_protocol::id::PersonId;
use tokio_postgres::Row;

use super::columns::{get_text, get_time, get_word, text};
use super::error::Failure;
use super::pool::Session;
use super::tenancy::{WORKSPACE, workspace_row};
use super::{Notice, PostgresStore};

#[async_trait]
impl People for PostgresStore {
    async fn put_person(&self, person: PutPerson, now: Millis) -> StoreResult<Option<PersonRow>> {
        let put = &person;
        let stored = self
            .pool
            .transact("put_person", |session| async move {
                put_person(&session, put, now).await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        Ok(stored)
    }

    async fn person(&self, id: &PersonId) -> StoreResult<Option<PersonRow>> {
        self.pool
            .read(|session| async move { find(&session, "id", id.as_str()).await })
            .await
    }

    async fn person_by_email(&self, email: &str) -> StoreResult<Option<PersonRow>> {
        self.pool
            .read(|session| async move { find(&session, "email", email).await })
            .await
    }

    async fn people(&self) -> StoreResult<Vec<PersonRow>> {
        let sql = &format!("SELECT {PERSON} FROM people ORDER BY email");
        self.pool
            .read(|session| async move {
                let mut people = Vec::new();
                for row in session.query(sql, &[]).await? {
                    people.push(whole(&session, &row).await?);
                }
                Ok(people)
            })
            .await
    }

    async fn delete_person(&self, id: &PersonId) -> StoreResult<bool> {
        let gone = self
            .pool
            .transact("delete_person", |session| async move {
                session
                    .execute("DELETE FROM people WHERE id = $1", &[&id.as_str()])
                    .await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        Ok(gone > 0)
    }
}

const PERSON: &str = "id, email, name, password, password_at, created_at";

async fn find(session: &Session, column: &str, value: &str) -> Result<Option<PersonRow>, Failure> {
    let sql = format!("SELECT {PERSON} FROM people WHERE {column} = $1");
    match session.first(&sql, &[&text(value)]).await? {
        Some(row) => whole(session, &row).await.map(Some),
        None => Ok(None),
    }
}

/// The person of a row, with their workspaces.
async fn whole(session: &Session, row: &Row) -> Result<PersonRow, Failure> {
    let id: PersonId = get_word(row, "id")?;
    let sql = format!(
        "SELECT {WORKSPACE} FROM memberships JOIN workspaces ON workspaces.no = memberships.workspace
         WHERE memberships.person = $1 ORDER BY workspaces.slug"
    );
    let workspaces = session.query(&sql, &[&id.as_str()]).await?;
    Ok(PersonRow {
        id,
        email: get_text(row, "email")?,
        name: get_text(row, "name")?,
        password: get_text(row, "password")?,
        password_at: get_time(row, "password_at")?,
        workspaces: workspaces
            .iter()
            .map(workspace_row)
            .collect::<Result<_, _>>()?,
        created_at: get_time(row, "created_at")?,
    })
}

async fn put_person(
    session: &Session,
    person: &PutPerson,
    now: Millis,
) -> Result<Option<PersonRow>, Failure> {
    // The row is locked, so that two changes of one person come one after the other.
    let known = session
        .first(
            "SELECT id FROM people WHERE email = $1 FOR UPDATE",
            &[&text(&person.email)],
        )
        .await?;
    let id = match (&known, &person.password) {
        (None, None) => return Ok(None),
        (Some(row), _) => get_word(row, "id")?,
        (None, Some(password)) => {
            let name = person.name.as_deref().unwrap_or_default();
            session
                .execute(
                    "INSERT INTO people (id, email, name, password, password_at, created_at)
                     VALUES ($1, $2, $3, $4, $5, $5)",
                    &[
                        &person.id.as_str(),
                        &text(&person.email),
                        &text(name),
                        password,
                        &now.0,
                    ],
                )
                .await?;
            person.id.clone()
        }
    };
    if known.is_some() {
        change(session, &id, person, now).await?;
    }
    if let Some(workspaces) = &person.workspaces {
        let wanted: Vec<i64> = workspaces.iter().map(|no| no.0).collect();
        // Codes before grants: a code that is redeemed meanwhile is waited for, and its grant is seen then.
        for sql in [
            "DELETE FROM memberships WHERE person = $1 AND workspace <> ALL($2)",
            "DELETE FROM oauth_codes WHERE person = $1 AND workspace <> ALL($2)",
            "DELETE FROM oauth_grants WHERE person = $1 AND workspace <> ALL($2)",
            "INSERT INTO memberships (person, workspace) SELECT $1, no FROM unnest($2::BIGINT[]) AS wanted (no)
             ON CONFLICT DO NOTHING",
        ] {
            session.execute(sql, &[&id.as_str(), &wanted]).await?;
        }
    }
    find(session, "id", id.as_str()).await
}

async fn change(
    session: &Session,
    id: &PersonId,
    person: &PutPerson,
    now: Millis,
) -> Result<(), Failure> {
    if let Some(name) = &person.name {
        let sql = "UPDATE people SET name = $2 WHERE id = $1";
        session.execute(sql, &[&id.as_str(), &text(name)]).await?;
    }
    if let Some(password) = &person.password {
        let sql = "UPDATE people SET password = $2, password_at = $3 WHERE id = $1";
        session
            .execute(sql, &[&id.as_str(), password, &now.0])
            .await?;
    }
    Ok(())
}
