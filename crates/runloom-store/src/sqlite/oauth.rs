//! [`OAuth`]: apps, codes, grants and tokens.

use async_trait::async_trait;
use runloom_ports::store::{
    AppRow, CODES_MAX, CodeRow, Consent, GRANTS_MAX, GrantFilter, GrantRow, Millis, NewCode,
    NewGrant, NewToken, OAuth, PutApp, StoreResult, TOKENS_MAX, TokenRow, WorkspaceNo,
};
use runloom_protocol::id::{GrantId, PersonId};
use runloom_protocol::scope::ScopeSet;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{OptionalExtension, Row, ToSql, params};

use super::columns::{Json, Unknown, Word};
use super::tenancy::workspace_row;
use super::transaction::Tx;
use super::{SqliteStore, int};

#[async_trait]
impl OAuth for SqliteStore {
    async fn put_app(&self, app: PutApp, now: Millis) -> StoreResult<bool> {
        self.writer
            .run("put_app", move |tx| put_app(tx, &app, now))
            .await
    }

    async fn app(&self, client_id: &str) -> StoreResult<Option<AppRow>> {
        let client_id = client_id.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {APP} FROM oauth_apps WHERE client_id = ?1"
                ))?
                .query_row([client_id], app_row)
                .optional()
        })
        .await
    }

    async fn apps(&self, workspace: WorkspaceNo) -> StoreResult<Vec<AppRow>> {
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {APP} FROM oauth_apps WHERE oauth_apps.workspace = ?1 ORDER BY oauth_apps.no"
                ))?
                .query_map([workspace.0], app_row)?
                .collect()
        })
        .await
    }

    async fn delete_app(&self, workspace: WorkspaceNo, client_id: &str) -> StoreResult<bool> {
        let client_id = client_id.to_owned();
        let sql = "DELETE FROM oauth_apps WHERE client_id = ?1 AND workspace = ?2";
        self.writer
            .run("delete_app", move |tx| {
                Ok(tx.execute(sql, params![client_id, workspace.0])? > 0)
            })
            .await
    }

    async fn put_code(&self, code: NewCode) -> StoreResult<bool> {
        self.writer
            .run("put_code", move |tx| put_code(tx, &code))
            .await
    }

    async fn codes_by_prefix(&self, prefix: &str) -> StoreResult<Vec<CodeRow>> {
        let prefix = prefix.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM oauth_codes WHERE prefix = ?1")?
                .query_map([prefix], code_row)?
                .collect()
        })
        .await
    }

    async fn redeem_code(
        &self,
        code: [u8; 32],
        grant: NewGrant,
        token: NewToken,
    ) -> StoreResult<bool> {
        self.writer
            .run("redeem_code", move |tx| redeem(tx, &code, &grant, &token))
            .await
    }

    async fn put_own_grant(&self, grant: NewGrant) -> StoreResult<GrantId> {
        self.writer
            .run("put_own_grant", move |tx| put_own_grant(tx, &grant))
            .await
    }

    async fn put_token(&self, token: NewToken) -> StoreResult<bool> {
        self.writer
            .run("put_token", move |tx| {
                let used = tx.execute(
                    "UPDATE oauth_grants SET last_used_at = ?2 WHERE id = ?1",
                    params![token.grant.as_str(), token.created_at.0],
                )?;
                if used > 0 {
                    put_token(tx, &token)?;
                }
                Ok(used > 0)
            })
            .await
    }

    async fn tokens_by_prefix(&self, prefix: &str) -> StoreResult<Vec<TokenRow>> {
        let prefix = prefix.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {GRANT}, t.hash, t.scopes AS token_scopes, t.created_at AS token_at, t.expires_at
                     FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id {AROUND} WHERE t.prefix = ?1"
                ))?
                .query_map([prefix], token_row)?
                .collect()
        })
        .await
    }

    async fn delete_token(&self, hash: [u8; 32]) -> StoreResult<bool> {
        let sql = "DELETE FROM oauth_tokens WHERE hash = ?1";
        self.writer
            .run("delete_token", move |tx| {
                Ok(tx.execute(sql, params![&hash[..]])? > 0)
            })
            .await
    }

    async fn grants_by_prefix(&self, prefix: &str) -> StoreResult<Vec<GrantRow>> {
        let prefix = prefix.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {GRANT} FROM oauth_grants g {AROUND} WHERE g.refresh_prefix = ?1"
                ))?
                .query_map([prefix], grant_row)?
                .collect()
        })
        .await
    }

    async fn grants(&self, filter: GrantFilter, limit: usize) -> StoreResult<Vec<GrantRow>> {
        self.read(move |connection| {
            let (mut wanted, mut values): (Vec<&str>, Vec<Box<dyn ToSql>>) = Default::default();
            if let Some(id) = filter.id {
                wanted.push("g.id = ?");
                values.push(Box::new(id.to_string()));
            }
            if let Some(app) = filter.client_id {
                wanted.push("g.client_id = ?");
                values.push(Box::new(app));
            }
            if let Some(person) = filter.person {
                wanted.push("g.person = ?");
                values.push(Box::new(person.to_string()));
            }
            if let Some(workspace) = filter.workspace {
                wanted.push("g.workspace = ?");
                values.push(Box::new(workspace.0));
            }
            wanted.push("1 = 1");
            values.push(Box::new(int(limit as u64)));
            let wanted = wanted.join(" AND ");
            connection
                .prepare_cached(&format!(
                    "SELECT {GRANT} FROM oauth_grants g {AROUND} WHERE {wanted} ORDER BY g.no DESC LIMIT ?"
                ))?
                .query_map(rusqlite::params_from_iter(values), grant_row)?
                .collect()
        })
        .await
    }

    async fn delete_grant(&self, id: &GrantId) -> StoreResult<bool> {
        let id = id.clone();
        let sql = "DELETE FROM oauth_grants WHERE id = ?1";
        self.writer
            .run("delete_grant", move |tx| {
                Ok(tx.execute(sql, params![id.as_str()])? > 0)
            })
            .await
    }

    async fn purge_expired(
        &self,
        tokens: Millis,
        codes: Millis,
        limit: usize,
    ) -> StoreResult<usize> {
        self.writer
            .run("purge_expired", move |tx| {
                let mut gone = 0;
                for (sql, before) in [(OLD_TOKENS, tokens), (OLD_CODES, codes)] {
                    gone += tx.execute(sql, params![before.0, int(limit as u64)])?;
                }
                Ok(gone)
            })
            .await
    }
}

const OLD_TOKENS: &str = "DELETE FROM oauth_tokens WHERE hash IN
    (SELECT hash FROM oauth_tokens WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";

const OLD_CODES: &str = "DELETE FROM oauth_codes WHERE hash IN
    (SELECT hash FROM oauth_codes WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";

const APP: &str =
    "client_id, oauth_apps.workspace AS app_workspace, oauth_apps.name AS app_name, secret, public,
    redirect_uris, oauth_apps.scopes AS app_scopes, client_credentials, oauth_apps.created_at AS app_at";

/// The workspace first: it is read by place.
const GRANT: &str = "workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off,
    oauth_apps.client_id AS client_id, oauth_apps.workspace AS app_workspace, oauth_apps.name AS app_name, secret, public,
    redirect_uris, oauth_apps.scopes AS app_scopes, client_credentials, oauth_apps.created_at AS app_at,
    g.id AS grant_id, g.scopes AS grant_scopes, g.agent_ids, g.refresh, g.created_at AS grant_at, g.last_used_at,
    people.id AS person_id, people.email AS email";

const AROUND: &str = "JOIN workspaces ON workspaces.no = g.workspace
    JOIN oauth_apps ON oauth_apps.client_id = g.client_id LEFT JOIN people ON people.id = g.person";

impl FromSql for Word<ScopeSet> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        ScopeSet::parse(text).map(Self).map_err(|word| {
            FromSqlError::other(Unknown {
                kind: "Scope",
                text: word.to_owned(),
            })
        })
    }
}

fn app_row(row: &Row<'_>) -> rusqlite::Result<AppRow> {
    Ok(AppRow {
        client_id: row.get("client_id")?,
        workspace: WorkspaceNo(row.get("app_workspace")?),
        name: row.get("app_name")?,
        secret: row.get("secret")?,
        public: row.get("public")?,
        redirect_uris: row.get::<_, Json<Vec<String>>>("redirect_uris")?.0,
        scopes: row.get::<_, Word<ScopeSet>>("app_scopes")?.0,
        client_credentials: row.get("client_credentials")?,
        created_at: Millis(row.get("app_at")?),
    })
}

fn code_row(row: &Row<'_>) -> rusqlite::Result<CodeRow> {
    let grant = row.get::<_, Option<Word<GrantId>>>("grant_id")?;
    Ok(CodeRow {
        hash: row.get("hash")?,
        consent: Consent {
            client_id: row.get("client_id")?,
            person: row.get::<_, Word<PersonId>>("person")?.0,
            workspace: WorkspaceNo(row.get("workspace")?),
            redirect_uri: row.get("redirect_uri")?,
            challenge: row.get("challenge")?,
            scopes: row.get::<_, Word<ScopeSet>>("scopes")?.0,
            agent_ids: row.get::<_, Json<Vec<String>>>("agent_ids")?.0,
        },
        expires_at: Millis(row.get("expires_at")?),
        grant: grant.map(|word| word.0),
    })
}

fn grant_row(row: &Row<'_>) -> rusqlite::Result<GrantRow> {
    let person = row.get::<_, Option<Word<PersonId>>>("person_id")?;
    let email: Option<String> = row.get("email")?;
    Ok(GrantRow {
        id: row.get::<_, Word<GrantId>>("grant_id")?.0,
        app: app_row(row)?,
        person: person.map(|word| word.0).zip(email),
        workspace: workspace_row(row)?,
        scopes: row.get::<_, Word<ScopeSet>>("grant_scopes")?.0,
        agent_ids: row.get::<_, Json<Vec<String>>>("agent_ids")?.0,
        refresh: row.get("refresh")?,
        created_at: Millis(row.get("grant_at")?),
        last_used_at: Millis(row.get("last_used_at")?),
    })
}

fn token_row(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow {
        hash: row.get("hash")?,
        grant: grant_row(row)?,
        scopes: row.get::<_, Word<ScopeSet>>("token_scopes")?.0,
        created_at: Millis(row.get("token_at")?),
        expires_at: Millis(row.get("expires_at")?),
    })
}

fn put_app(tx: &Tx<'_>, app: &PutApp, now: Millis) -> rusqlite::Result<bool> {
    let known = tx
        .connection
        .prepare_cached("SELECT workspace, secret FROM oauth_apps WHERE client_id = ?1")?
        .query_row([&app.client_id], |row| {
            Ok((WorkspaceNo(row.get(0)?), row.get::<_, [u8; 32]>(1)?))
        })
        .optional()?;
    let secret = match (known, app.secret) {
        (Some((workspace, _)), _) if workspace != app.workspace => return Ok(false),
        (None, None) => return Ok(false),
        (_, Some(secret)) | (Some((_, secret)), None) => secret,
    };
    tx.execute(
        "INSERT INTO oauth_apps (client_id, workspace, name, secret, public, redirect_uris, scopes, client_credentials,
             created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
         ON CONFLICT (client_id) DO UPDATE SET
             name = ?3, secret = ?4, public = ?5, redirect_uris = ?6, scopes = ?7, client_credentials = ?8, updated_at = ?9",
        params![
            app.client_id,
            app.workspace.0,
            app.name,
            &secret[..],
            app.public,
            Json(&app.redirect_uris),
            app.scopes.to_string(),
            app.client_credentials,
            now.0
        ],
    )?;
    Ok(true)
}

fn put_code(tx: &Tx<'_>, code: &NewCode) -> rusqlite::Result<bool> {
    let consent = &code.consent;
    let put = tx.execute(
        "INSERT INTO oauth_codes (hash, prefix, client_id, person, workspace, redirect_uri, challenge, scopes, agent_ids,
             expires_at)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
         WHERE EXISTS (SELECT 1 FROM memberships WHERE person = ?4 AND workspace = ?5)",
        params![
            &code.hash[..],
            code.prefix,
            consent.client_id,
            consent.person.as_str(),
            consent.workspace.0,
            consent.redirect_uri,
            consent.challenge,
            consent.scopes.to_string(),
            Json(&consent.agent_ids),
            code.expires_at.0
        ],
    )?;
    if put == 0 {
        return Ok(false);
    }
    tx.execute(
        "DELETE FROM oauth_codes WHERE client_id = ?1 AND person = ?2 AND grant_id IS NULL AND hash NOT IN
             (SELECT hash FROM oauth_codes WHERE client_id = ?1 AND person = ?2 AND grant_id IS NULL
              ORDER BY expires_at DESC, hash = ?3 DESC, hash LIMIT ?4)",
        params![
            consent.client_id,
            consent.person.as_str(),
            &code.hash[..],
            int(CODES_MAX as u64)
        ],
    )?;
    Ok(true)
}

fn redeem(
    tx: &Tx<'_>,
    code: &[u8; 32],
    grant: &NewGrant,
    token: &NewToken,
) -> rusqlite::Result<bool> {
    let used = tx.execute(
        "UPDATE oauth_codes SET grant_id = ?2 WHERE hash = ?1 AND grant_id IS NULL AND EXISTS
             (SELECT 1 FROM memberships m WHERE m.person = oauth_codes.person AND m.workspace = oauth_codes.workspace)",
        params![&code[..], grant.id.as_str()],
    )?;
    if used == 0 {
        return Ok(false);
    }
    put_grant(tx, grant)?;
    // No index is unique on these, so the newest are found by number.
    tx.execute(
        "DELETE FROM oauth_grants WHERE client_id = ?1 AND person = ?2 AND no NOT IN
             (SELECT no FROM oauth_grants WHERE client_id = ?1 AND person = ?2 ORDER BY no DESC LIMIT ?3)",
        params![
            grant.client_id,
            grant.person.as_ref().map(PersonId::as_str),
            int(GRANTS_MAX as u64)
        ],
    )?;
    put_token(tx, token)?;
    Ok(true)
}

fn put_grant(tx: &Tx<'_>, grant: &NewGrant) -> rusqlite::Result<()> {
    let prefix = grant.refresh.as_ref().map(|(prefix, _)| prefix);
    let refresh = grant.refresh.as_ref().map(|(_, hash)| &hash[..]);
    tx.execute(
        "INSERT INTO oauth_grants (id, client_id, person, workspace, scopes, agent_ids, refresh_prefix, refresh, created_at,
             last_used_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
        params![
            grant.id.as_str(),
            grant.client_id,
            grant.person.as_ref().map(PersonId::as_str),
            grant.workspace.0,
            grant.scopes.to_string(),
            Json(&grant.agent_ids),
            prefix,
            refresh,
            grant.created_at.0
        ],
    )?;
    Ok(())
}

fn put_own_grant(tx: &Tx<'_>, grant: &NewGrant) -> rusqlite::Result<GrantId> {
    let known = tx
        .connection
        .prepare_cached("SELECT id FROM oauth_grants WHERE client_id = ?1 AND person IS NULL")?
        .query_row([&grant.client_id], |row| {
            Ok(row.get::<_, Word<GrantId>>(0)?.0)
        })
        .optional()?;
    let Some(id) = known else {
        put_grant(tx, grant)?;
        return Ok(grant.id.clone());
    };
    tx.execute(
        "UPDATE oauth_grants SET scopes = ?2 WHERE id = ?1",
        params![id.as_str(), grant.scopes.to_string()],
    )?;
    Ok(id)
}

fn put_token(tx: &Tx<'_>, token: &NewToken) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO oauth_tokens (hash, prefix, grant_id, scopes, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            &token.hash[..],
            token.prefix,
            token.grant.as_str(),
            token.scopes.to_string(),
            token.created_at.0,
            token.expires_at.0
        ],
    )?;
    tx.execute(
        "DELETE FROM oauth_tokens WHERE grant_id = ?1 AND hash NOT IN
             (SELECT hash FROM oauth_tokens WHERE grant_id = ?1 ORDER BY expires_at DESC, hash = ?2 DESC, hash LIMIT ?3)",
        params![token.grant.as_str(), &token.hash[..], int(TOKENS_MAX as u64)],
    )?;
    Ok(())
}
