//! [`Users`]: users who can sign in, and their workspaces.

use runloom_ports::store::{Millis, StoreResult, UserChange, UserRow, Users, WorkspaceNo};
use runloom_protocol::id::UserId;

use super::tenancy::{WORKSPACE, workspace_row};
use super::{on_both, work};
use crate::sql::{Row, Statements, Value, values};

on_both! { impl Users {
    async fn put_user(&self, person: UserChange, now: Millis) -> StoreResult<Option<UserRow>> {
        self.write_cached("put_user", (person, now), work!(put)).await
    }

    async fn user(&self, id: &UserId) -> StoreResult<Option<UserRow>> {
        self.read_tables(id.clone(), work!(by_id)).await
    }

    async fn user_by_email(&self, email: &str) -> StoreResult<Option<UserRow>> {
        self.read_tables(email.to_owned(), work!(by_email)).await
    }

    async fn users(&self) -> StoreResult<Vec<UserRow>> {
        self.read_tables((), work!(all)).await
    }

    async fn delete_user(&self, id: &UserId) -> StoreResult<bool> {
        self.write_cached("delete_user", id.clone(), work!(delete)).await
    }
} }

const SELECT: &str = "SELECT id, email, name, password, password_at, created_at FROM people";

async fn by_id<S: Statements>(statements: &S, id: &UserId) -> Result<Option<UserRow>, S::Error> {
    let sql = format!("{SELECT} WHERE id = $1");
    let row = statements.first(&sql, &values![id.as_str()]).await?;
    complete(statements, row).await
}

async fn by_email<S: Statements>(
    statements: &S,
    email: &String,
) -> Result<Option<UserRow>, S::Error> {
    let sql = format!("{SELECT} WHERE email = $1");
    let row = statements.first(&sql, &values![email]).await?;
    complete(statements, row).await
}

async fn all<S: Statements>(statements: &S, (): &()) -> Result<Vec<UserRow>, S::Error> {
    let sql = format!("{SELECT} ORDER BY email");
    let mut people = Vec::new();
    for row in statements.query(&sql, &[]).await? {
        people.extend(complete(statements, Some(row)).await?);
    }
    Ok(people)
}

async fn delete<S: Statements>(statements: &S, id: &UserId) -> Result<bool, S::Error> {
    let sql = "DELETE FROM people WHERE id = $1";
    Ok(statements.execute(sql, &values![id.as_str()]).await? > 0)
}

/// The user of a row, with their workspaces.
async fn complete<S: Statements>(
    statements: &S,
    row: Option<Row>,
) -> Result<Option<UserRow>, S::Error> {
    let Some(row) = row else {
        return Ok(None);
    };
    let id: UserId = row.word("id")?;
    let sql = format!(
        "SELECT {WORKSPACE} FROM memberships JOIN workspaces ON workspaces.no = memberships.workspace
         WHERE memberships.person = $1 ORDER BY workspaces.slug"
    );
    let workspaces = statements.query(&sql, &values![id.as_str()]).await?;
    Ok(Some(UserRow {
        id,
        email: row.text("email")?,
        name: row.text("name")?,
        password: row.text("password")?,
        password_at: row.time("password_at")?,
        workspaces: workspaces
            .iter()
            .map(workspace_row)
            .collect::<Result<_, _>>()?,
        created_at: row.time("created_at")?,
    }))
}

async fn put<S: Statements>(
    statements: &S,
    (person, now): &(UserChange, Millis),
) -> Result<Option<UserRow>, S::Error> {
    // The row is locked, so that two changes of one user happen one after the other.
    let known = statements
        .first(
            "SELECT id FROM people WHERE email = $1 FOR UPDATE",
            &values![&person.email],
        )
        .await?;
    let id = match (&known, &person.password) {
        (None, None) => return Ok(None),
        (Some(row), _) => {
            let id = row.word("id")?;
            change(statements, &id, person, *now).await?;
            id
        }
        (None, Some(password)) => {
            let name = person.name.as_deref().unwrap_or_default();
            statements
                .execute(
                    "INSERT INTO people (id, email, name, password, password_at, created_at)
                     VALUES ($1, $2, $3, $4, $5, $5)",
                    &values![person.id.as_str(), &person.email, name, password, *now],
                )
                .await?;
            person.id.clone()
        }
    };
    if let Some(workspaces) = &person.workspaces {
        set_workspaces(statements, &id, workspaces).await?;
    }
    by_id(statements, &id).await
}

async fn change<S: Statements>(
    statements: &S,
    id: &UserId,
    person: &UserChange,
    now: Millis,
) -> Result<(), S::Error> {
    if let Some(name) = &person.name {
        let sql = "UPDATE people SET name = $2 WHERE id = $1";
        statements.execute(sql, &values![id.as_str(), name]).await?;
    }
    if let Some(password) = &person.password {
        let sql = "UPDATE people SET password = $2, password_at = $3 WHERE id = $1";
        statements
            .execute(sql, &values![id.as_str(), password, now])
            .await?;
    }
    Ok(())
}

/// Leaving a workspace deletes the codes and grants that the user gave there. Codes before grants: a code that is
/// redeemed meanwhile is waited for, and its grant is seen then.
async fn set_workspaces<S: Statements>(
    statements: &S,
    id: &UserId,
    wanted: &[WorkspaceNo],
) -> Result<(), S::Error> {
    let member = |workspace: Value| [Value::from(id.as_str()), workspace];
    let sql = "SELECT workspace FROM memberships WHERE person = $1";
    for row in statements.query(sql, &values![id.as_str()]).await? {
        let workspace = row.workspace("workspace")?;
        if wanted.contains(&workspace) {
            continue;
        }
        for sql in [
            "DELETE FROM memberships WHERE person = $1 AND workspace = $2",
            "DELETE FROM oauth_codes WHERE person = $1 AND workspace = $2",
            "DELETE FROM oauth_grants WHERE person = $1 AND workspace = $2",
        ] {
            statements.execute(sql, &member(workspace.into())).await?;
        }
    }
    let sql = "INSERT INTO memberships (person, workspace) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    for workspace in wanted {
        statements
            .execute(sql, &member((*workspace).into()))
            .await?;
    }
    Ok(())
}
