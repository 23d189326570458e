//! [`OAuth`]: apps, codes, grants and tokens.

use async_trait::async_trait;
use runloom_ports::store::{
    AppRow, CODES_MAX, CodeRow, Consent, GRANTS_MAX, GrantFilter, GrantRow, Millis, NewCode,
    NewGrant, NewToken, OAuth, PutApp, StoreResult, TOKENS_MAX, TokenRow, WorkspaceNo,
};
use runloom_protocol::id::{GrantId, PersonId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::columns::{
    Word, get_hash, get_json, get_maybe_text, get_text, get_time, get_word, hash_of, text, to_json,
};
use super::error::Failure;
use super::pool::{Session, no_row};
use super::tenancy::workspace_row;
use super::{Notice, PostgresStore, int};

#[async_trait]
impl OAuth for PostgresStore {
    async fn put_app(&self, app: PutApp, now: Millis) -> StoreResult<bool> {
        let put = &app;
        let stored = self
            .pool
            .transact("put_app", |session| async move {
                put_app(&session, put, now).await
            })
            .await?;
        self.writer.notify(Notice::Registry);
        Ok(stored)
    }

    async fn app(&self, client_id: &str) -> StoreResult<Option<AppRow>> {
        let sql = &format!("SELECT {APP} FROM oauth_apps WHERE client_id = $1");
        self.pool
            .read(|session| async move {
                let row = session.first(sql, &[&text(client_id)]).await?;
                row.as_ref().map(app_row).transpose()
            })
            .await
    }

    async fn apps(&self, workspace: WorkspaceNo) -> StoreResult<Vec<AppRow>> {
        let sql = &format!(
            "SELECT {APP} FROM oauth_apps WHERE oauth_apps.workspace = $1 ORDER BY oauth_apps.no"
        );
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&workspace.0]).await?;
                rows.iter().map(app_row).collect()
            })
            .await
    }

    async fn delete_app(&self, workspace: WorkspaceNo, client_id: &str) -> StoreResult<bool> {
        let sql = "DELETE FROM oauth_apps WHERE client_id = $1 AND workspace = $2";
        self.delete("delete_app", sql, &[&text(client_id), &workspace.0])
            .await
    }

    async fn put_code(&self, code: NewCode) -> StoreResult<bool> {
        let put = &code;
        let kept = self.pool.transact("put_code", |session| async move {
            put_code(&session, put).await
        });
        Ok(kept.await?)
    }

    async fn codes_by_prefix(&self, prefix: &str) -> StoreResult<Vec<CodeRow>> {
        let sql = "SELECT * FROM oauth_codes WHERE prefix = $1";
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&text(prefix)]).await?;
                rows.iter().map(code_row).collect()
            })
            .await
    }

    async fn redeem_code(
        &self,
        code: [u8; 32],
        grant: NewGrant,
        token: NewToken,
    ) -> StoreResult<bool> {
        let (code, grant, token) = (&code, &grant, &token);
        let redeemed = self.pool.transact("redeem_code", |session| async move {
            redeem(&session, code, grant, token).await
        });
        Ok(redeemed.await?)
    }

    async fn put_own_grant(&self, grant: NewGrant) -> StoreResult<GrantId> {
        let put = &grant;
        let id = self
            .pool
            .transact("put_own_grant", |session| async move {
                put_own_grant(&session, put).await
            })
            .await?;
        id.ok_or_else(|| no_row("grant that was just put"))
    }

    async fn put_token(&self, token: NewToken) -> StoreResult<bool> {
        let put = &token;
        let kept = self
            .pool
            .transact("put_token", |session| async move {
                let sql = "UPDATE oauth_grants SET last_used_at = $2 WHERE id = $1";
                let used = session
                    .execute(sql, &[&put.grant.as_str(), &put.created_at.0])
                    .await?;
                if used > 0 {
                    put_token(&session, put).await?;
                }
                Ok(used > 0)
            })
            .await?;
        Ok(kept)
    }

    async fn tokens_by_prefix(&self, prefix: &str) -> StoreResult<Vec<TokenRow>> {
        let sql = &format!(
            "SELECT {GRANT}, t.hash, t.scopes AS token_scopes, t.created_at AS token_at, t.expires_at
             FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id {AROUND} WHERE t.prefix = $1"
        );
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&text(prefix)]).await?;
                rows.iter().map(token_row).collect()
            })
            .await
    }

    async fn delete_token(&self, hash: [u8; 32]) -> StoreResult<bool> {
        let sql = "DELETE FROM oauth_tokens WHERE hash = $1";
        self.delete("delete_token", sql, &[&&hash[..]]).await
    }

    async fn grants_by_prefix(&self, prefix: &str) -> StoreResult<Vec<GrantRow>> {
        let sql =
            &format!("SELECT {GRANT} FROM oauth_grants g {AROUND} WHERE g.refresh_prefix = $1");
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, &[&text(prefix)]).await?;
                rows.iter().map(grant_row).collect()
            })
            .await
    }

    async fn grants(&self, filter: GrantFilter, limit: usize) -> StoreResult<Vec<GrantRow>> {
        let limit = int(limit as u64);
        let mut wanted = vec!["$1::BIGINT > 0".to_owned()];
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&limit];
        let id = filter.id.as_ref().map(GrantId::as_str);
        let person = filter.person.as_ref().map(PersonId::as_str);
        let workspace = filter.workspace.map(|workspace| workspace.0);
        let mut only = |column: &str, value| {
            values.push(value);
            wanted.push(format!("g.{column} = ${}", values.len()));
        };
        if let Some(id) = &id {
            only("id", id);
        }
        if let Some(app) = &filter.client_id {
            only("client_id", app);
        }
        if let Some(person) = &person {
            only("person", person);
        }
        if let Some(workspace) = &workspace {
            only("workspace", workspace);
        }
        let wanted = wanted.join(" AND ");
        let sql = &format!(
            "SELECT {GRANT} FROM oauth_grants g {AROUND} WHERE {wanted} ORDER BY g.no DESC LIMIT $1"
        );
        let values = &values;
        self.pool
            .read(|session| async move {
                let rows = session.query(sql, values).await?;
                rows.iter().map(grant_row).collect()
            })
            .await
    }

    async fn delete_grant(&self, id: &GrantId) -> StoreResult<bool> {
        let sql = "DELETE FROM oauth_grants WHERE id = $1";
        self.delete("delete_grant", sql, &[&id.as_str()]).await
    }

    async fn purge_expired(
        &self,
        tokens: Millis,
        codes: Millis,
        limit: usize,
    ) -> StoreResult<usize> {
        let limit = &int(limit as u64);
        let gone = self
            .pool
            .transact("purge_expired", |session| async move {
                let tokens = session.execute(OLD_TOKENS, &[&tokens.0, limit]).await?;
                Ok(tokens + session.execute(OLD_CODES, &[&codes.0, limit]).await?)
            })
            .await?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }
}

impl PostgresStore {
    /// Deletes what a statement says and tells other processes, who may know it still.
    async fn delete(
        &self,
        kind: &'static str,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> StoreResult<bool> {
        let gone = self
            .pool
            .transact(
                kind,
                |session| async move { session.execute(sql, values).await },
            )
            .await?;
        if gone > 0 {
            self.writer.notify(Notice::Registry);
        }
        Ok(gone > 0)
    }
}

const OLD_TOKENS: &str = "DELETE FROM oauth_tokens WHERE hash IN (SELECT hash FROM oauth_tokens
    WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

const OLD_CODES: &str = "DELETE FROM oauth_codes WHERE hash IN (SELECT hash FROM oauth_codes
    WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

const APP: &str =
    "client_id, oauth_apps.workspace AS app_workspace, oauth_apps.name AS app_name, secret, public,
    redirect_uris, oauth_apps.scopes AS app_scopes, client_credentials, oauth_apps.created_at AS app_at";

const GRANT: &str = "workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off,
    oauth_apps.client_id AS client_id, oauth_apps.workspace AS app_workspace, oauth_apps.name AS app_name, secret, public,
    redirect_uris, oauth_apps.scopes AS app_scopes, client_credentials, oauth_apps.created_at AS app_at,
    g.id AS grant_id, g.scopes AS grant_scopes, g.agent_ids, g.refresh, g.created_at AS grant_at, g.last_used_at,
    people.id AS person_id, people.email AS email";

const AROUND: &str = "JOIN workspaces ON workspaces.no = g.workspace
    JOIN oauth_apps ON oauth_apps.client_id = g.client_id LEFT JOIN people ON people.id = g.person";

fn app_row(row: &Row) -> Result<AppRow, Failure> {
    Ok(AppRow {
        client_id: get_text(row, "client_id")?,
        workspace: WorkspaceNo(row.try_get("app_workspace")?),
        name: get_text(row, "app_name")?,
        secret: get_hash(row, "secret")?,
        public: row.try_get("public")?,
        redirect_uris: get_json(row, "redirect_uris")?,
        scopes: get_word(row, "app_scopes")?,
        client_credentials: row.try_get("client_credentials")?,
        created_at: get_time(row, "app_at")?,
    })
}

fn code_row(row: &Row) -> Result<CodeRow, Failure> {
    let grant: Option<Word<GrantId>> = row.try_get("grant_id")?;
    Ok(CodeRow {
        hash: get_hash(row, "hash")?,
        consent: Consent {
            client_id: get_text(row, "client_id")?,
            person: get_word(row, "person")?,
            workspace: WorkspaceNo(row.try_get("workspace")?),
            redirect_uri: get_text(row, "redirect_uri")?,
            challenge: get_text(row, "challenge")?,
            scopes: get_word(row, "scopes")?,
            agent_ids: get_json(row, "agent_ids")?,
        },
        expires_at: get_time(row, "expires_at")?,
        grant: grant.map(|word| word.0),
    })
}

fn grant_row(row: &Row) -> Result<GrantRow, Failure> {
    let person: Option<Word<PersonId>> = row.try_get("person_id")?;
    let refresh: Option<&[u8]> = row.try_get("refresh")?;
    Ok(GrantRow {
        id: get_word(row, "grant_id")?,
        app: app_row(row)?,
        person: person.map(|word| word.0).zip(get_maybe_text(row, "email")?),
        workspace: workspace_row(row)?,
        scopes: get_word(row, "grant_scopes")?,
        agent_ids: get_json(row, "agent_ids")?,
        refresh: refresh.map(hash_of),
        created_at: get_time(row, "grant_at")?,
        last_used_at: get_time(row, "last_used_at")?,
    })
}

fn token_row(row: &Row) -> Result<TokenRow, Failure> {
    Ok(TokenRow {
        hash: get_hash(row, "hash")?,
        grant: grant_row(row)?,
        scopes: get_word(row, "token_scopes")?,
        created_at: get_time(row, "token_at")?,
        expires_at: get_time(row, "expires_at")?,
    })
}

async fn put_app(session: &Session, app: &PutApp, now: Millis) -> Result<bool, Failure> {
    let known = session
        .first(
            "SELECT workspace, secret FROM oauth_apps WHERE client_id = $1 FOR UPDATE",
            &[&text(&app.client_id)],
        )
        .await?;
    let secret = match (&known, app.secret) {
        (Some(row), _) if row.try_get::<_, i64>("workspace")? != app.workspace.0 => {
            return Ok(false);
        }
        (None, None) => return Ok(false),
        (_, Some(secret)) => secret,
        (Some(row), None) => get_hash(row, "secret")?,
    };
    session
        .execute(
            "INSERT INTO oauth_apps (client_id, workspace, name, secret, public, redirect_uris, scopes, client_credentials,
                 created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
             ON CONFLICT (client_id) DO UPDATE SET
                 name = $3, secret = $4, public = $5, redirect_uris = $6, scopes = $7, client_credentials = $8, updated_at = $9
             WHERE oauth_apps.workspace = $2",
            &[
                &text(&app.client_id),
                &app.workspace.0,
                &text(&app.name),
                &&secret[..],
                &app.public,
                &to_json(&app.redirect_uris)?,
                &app.scopes.to_string(),
                &app.client_credentials,
                &now.0,
            ],
        )
        .await
        .map(|rows| rows > 0)
}

/// Holds a person as they are until the end of the transaction. Changes of a person lock the same row first, so what is read of their
/// memberships afterwards stays true, and nobody waits in a circle.
async fn hold(session: &Session, person: &str) -> Result<(), Failure> {
    let sql = "SELECT id FROM people WHERE id = $1 FOR KEY SHARE";
    session.first(sql, &[&person]).await?;
    Ok(())
}

async fn put_code(session: &Session, code: &NewCode) -> Result<bool, Failure> {
    let consent = &code.consent;
    hold(session, consent.person.as_str()).await?;
    let put = session
        .execute(
            "INSERT INTO oauth_codes (hash, prefix, client_id, person, workspace, redirect_uri, challenge, scopes, agent_ids,
                 expires_at)
             SELECT $1::BYTEA, $2, $3, $4, $5::BIGINT, $6, $7, $8, $9, $10::BIGINT
             WHERE EXISTS (SELECT 1 FROM memberships WHERE person = $4 AND workspace = $5)",
            &[
                &&code.hash[..],
                &text(&code.prefix),
                &text(&consent.client_id),
                &consent.person.as_str(),
                &consent.workspace.0,
                &text(&consent.redirect_uri),
                &text(&consent.challenge),
                &consent.scopes.to_string(),
                &to_json(&consent.agent_ids)?,
                &code.expires_at.0,
            ],
        )
        .await?;
    if put == 0 {
        return Ok(false);
    }
    session
        .execute(
            "DELETE FROM oauth_codes WHERE client_id = $1 AND person = $2 AND grant_id IS NULL AND hash NOT IN
                 (SELECT hash FROM oauth_codes WHERE client_id = $1 AND person = $2 AND grant_id IS NULL
                  ORDER BY expires_at DESC, hash = $3 DESC, hash LIMIT $4)",
            &[
                &text(&consent.client_id),
                &consent.person.as_str(),
                &&code.hash[..],
                &int(CODES_MAX as u64),
            ],
        )
        .await?;
    Ok(true)
}

async fn redeem(
    session: &Session,
    code: &[u8; 32],
    grant: &NewGrant,
    token: &NewToken,
) -> Result<bool, Failure> {
    if let Some(person) = &grant.person {
        hold(session, person.as_str()).await?;
    }
    let used = session
        .execute(
            "UPDATE oauth_codes SET grant_id = $2 WHERE hash = $1 AND grant_id IS NULL AND EXISTS
                 (SELECT 1 FROM memberships m WHERE m.person = oauth_codes.person AND m.workspace = oauth_codes.workspace)",
            &[&&code[..], &grant.id.as_str()],
        )
        .await?;
    if used == 0 {
        return Ok(false);
    }
    insert_grant(session, grant, "").await?;
    session
        .execute(
            "DELETE FROM oauth_grants WHERE client_id = $1 AND person = $2 AND no NOT IN
                 (SELECT no FROM oauth_grants WHERE client_id = $1 AND person = $2 ORDER BY no DESC LIMIT $3)",
            &[
                &text(&grant.client_id),
                &grant.person.as_ref().map(PersonId::as_str),
                &int(GRANTS_MAX as u64),
            ],
        )
        .await?;
    put_token(session, token).await?;
    Ok(true)
}

async fn put_own_grant(session: &Session, grant: &NewGrant) -> Result<Option<GrantId>, Failure> {
    let again = "ON CONFLICT (client_id) WHERE person IS NULL DO UPDATE SET scopes = $5";
    insert_grant(session, grant, again).await
}

/// Inserts a grant, or does what `again` says; which id it has.
async fn insert_grant(
    session: &Session,
    grant: &NewGrant,
    again: &str,
) -> Result<Option<GrantId>, Failure> {
    let prefix = grant.refresh.as_ref().map(|(prefix, _)| prefix);
    let refresh = grant.refresh.as_ref().map(|(_, hash)| &hash[..]);
    let sql = format!(
        "INSERT INTO oauth_grants (id, client_id, person, workspace, scopes, agent_ids, refresh_prefix, refresh, created_at,
             last_used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) {again} RETURNING id"
    );
    let row = session
        .first(
            &sql,
            &[
                &grant.id.as_str(),
                &text(&grant.client_id),
                &grant.person.as_ref().map(PersonId::as_str),
                &grant.workspace.0,
                &grant.scopes.to_string(),
                &to_json(&grant.agent_ids)?,
                &prefix,
                &refresh,
                &grant.created_at.0,
            ],
        )
        .await?;
    row.as_ref().map(|row| get_word(row, "id")).transpose()
}

async fn put_token(session: &Session, token: &NewToken) -> Result<(), Failure> {
    session
        .execute(
            "INSERT INTO oauth_tokens (hash, prefix, grant_id, scopes, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                &&token.hash[..],
                &text(&token.prefix),
                &token.grant.as_str(),
                &token.scopes.to_string(),
                &token.created_at.0,
                &token.expires_at.0,
            ],
        )
        .await?;
    session
        .execute(
            "DELETE FROM oauth_tokens WHERE grant_id = $1 AND hash NOT IN
                 (SELECT hash FROM oauth_tokens WHERE grant_id = $1 ORDER BY expires_at DESC, hash = $2 DESC, hash LIMIT $3)",
            &[
                &token.grant.as_str(),
                &&token.hash[..],
                &int(TOKENS_MAX as u64),
            ],
        )
        .await?;
    Ok(())
}
