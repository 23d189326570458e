//! [`OAuth`]: apps, codes, grants and tokens.

mod rows;

use runloom_ports::store::{
    AppRow, CODES_MAX, CodeRow, GRANTS_MAX, GrantFilter, GrantRow, Millis, NewCode, NewGrant,
    NewToken, OAuth, PutApp, StoreResult, TOKENS_MAX, TokenRow, WorkspaceNo,
};
use runloom_protocol::id::{GrantId, UserId};

use self::rows::{APP, GRANT, GRANT_JOINS, app_row, code_row, grant_row, token_row};
use super::tenancy::missing;
use super::{on_both, work};
use crate::sql::{Statements, Value, json, number, values};

on_both! { impl OAuth {
    async fn put_app(&self, app: PutApp, now: Millis) -> StoreResult<bool> {
        self.write_cached("put_app", (app, now), work!(put_app)).await
    }

    async fn app(&self, client_id: &str) -> StoreResult<Option<AppRow>> {
        self.read_tables(client_id.to_owned(), work!(app)).await
    }

    async fn apps(&self, workspace: WorkspaceNo) -> StoreResult<Vec<AppRow>> {
        self.read_tables(workspace, work!(apps)).await
    }

    async fn delete_app(&self, workspace: WorkspaceNo, client_id: &str) -> StoreResult<bool> {
        self.write_cached("delete_app", (workspace, client_id.to_owned()), work!(delete_app)).await
    }

    async fn put_code(&self, code: NewCode) -> StoreResult<bool> {
        self.write_tables("put_code", code, work!(put_code)).await
    }

    async fn codes_by_prefix(&self, prefix: &str) -> StoreResult<Vec<CodeRow>> {
        self.read_tables(prefix.to_owned(), work!(codes_by_prefix)).await
    }

    async fn redeem_code(
        &self,
        code: [u8; 32],
        grant: NewGrant,
        token: NewToken,
    ) -> StoreResult<bool> {
        let redeemed = Redeemed { code, grant, token };
        self.write_tables("redeem_code", redeemed, work!(redeem)).await
    }

    async fn put_own_grant(&self, grant: NewGrant) -> StoreResult<GrantId> {
        self.write_tables("put_own_grant", grant, work!(put_own_grant)).await
    }

    async fn put_token(&self, token: NewToken) -> StoreResult<bool> {
        self.write_tables("put_token", token, work!(put_token)).await
    }

    async fn tokens_by_prefix(&self, prefix: &str) -> StoreResult<Vec<TokenRow>> {
        self.read_tables(prefix.to_owned(), work!(tokens_by_prefix)).await
    }

    async fn delete_token(&self, hash: [u8; 32]) -> StoreResult<bool> {
        self.write_cached("delete_token", hash, work!(delete_token)).await
    }

    async fn grants_by_prefix(&self, prefix: &str) -> StoreResult<Vec<GrantRow>> {
        self.read_tables(prefix.to_owned(), work!(grants_by_prefix)).await
    }

    async fn grants(&self, filter: GrantFilter, limit: usize) -> StoreResult<Vec<GrantRow>> {
        self.read_tables((filter, limit), work!(grants)).await
    }

    async fn delete_grant(&self, id: &GrantId) -> StoreResult<bool> {
        self.write_cached("delete_grant", id.clone(), work!(delete_grant)).await
    }

    async fn purge_expired(&self, tokens: Millis, codes: Millis, limit: usize) -> StoreResult<usize> {
        let expired = Expired { tokens, codes, limit };
        self.write_tables("purge_expired", expired, work!(purge)).await
    }
} }

/// A code and what is made from it.
struct Redeemed {
    code: [u8; 32],
    grant: NewGrant,
    token: NewToken,
}

/// Tokens and codes that ended before these times.
struct Expired {
    tokens: Millis,
    codes: Millis,
    limit: usize,
}

async fn app<S: Statements>(
    statements: &S,
    client_id: &String,
) -> Result<Option<AppRow>, S::Error> {
    let sql = format!("SELECT {APP} FROM oauth_apps WHERE client_id = $1");
    let row = statements.first(&sql, &values![client_id]).await?;
    Ok(row.as_ref().map(app_row).transpose()?)
}

async fn apps<S: Statements>(
    statements: &S,
    workspace: &WorkspaceNo,
) -> Result<Vec<AppRow>, S::Error> {
    let sql = format!(
        "SELECT {APP} FROM oauth_apps WHERE oauth_apps.workspace = $1 ORDER BY oauth_apps.no"
    );
    let rows = statements.query(&sql, &values![*workspace]).await?;
    Ok(rows.iter().map(app_row).collect::<Result<_, _>>()?)
}

async fn delete_app<S: Statements>(
    statements: &S,
    (workspace, client_id): &(WorkspaceNo, String),
) -> Result<bool, S::Error> {
    let sql = "DELETE FROM oauth_apps WHERE client_id = $1 AND workspace = $2";
    let gone = statements
        .execute(sql, &values![client_id, *workspace])
        .await?;
    Ok(gone > 0)
}

async fn put_app<S: Statements>(
    statements: &S,
    (app, now): &(PutApp, Millis),
) -> Result<bool, S::Error> {
    let sql = "SELECT workspace, secret FROM oauth_apps WHERE client_id = $1 FOR UPDATE";
    let known = statements.first(sql, &values![&app.client_id]).await?;
    let secret = match (&known, app.secret) {
        (Some(row), _) if row.workspace("workspace")? != app.workspace => return Ok(false),
        (None, None) => return Ok(false),
        (_, Some(secret)) => secret,
        (Some(row), None) => row.hash("secret")?,
    };
    let written = statements
        .execute(
            "INSERT INTO oauth_apps (client_id, workspace, name, secret, public, redirect_uris, scopes, client_credentials,
                 created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
             ON CONFLICT (client_id) DO UPDATE SET
                 name = $3, secret = $4, public = $5, redirect_uris = $6, scopes = $7, client_credentials = $8, updated_at = $9
             WHERE oauth_apps.workspace = $2",
            &values![
                &app.client_id,
                app.workspace,
                &app.name,
                &secret,
                app.public,
                json(&app.redirect_uris)?,
                app.scopes.to_string(),
                app.client_credentials,
                *now,
            ],
        )
        .await?;
    Ok(written > 0)
}

/// Locks a user until the end of the transaction. Changes of a user lock the same row first, so their memberships
/// stay as they are read, and nobody waits in a circle.
async fn lock_user<S: Statements>(statements: &S, person: &UserId) -> Result<(), S::Error> {
    let sql = "SELECT id FROM people WHERE id = $1 FOR KEY SHARE";
    statements.first(sql, &values![person.as_str()]).await?;
    Ok(())
}

async fn codes_by_prefix<S: Statements>(
    statements: &S,
    prefix: &String,
) -> Result<Vec<CodeRow>, S::Error> {
    let sql = "SELECT * FROM oauth_codes WHERE prefix = $1";
    let rows = statements.query(sql, &values![prefix]).await?;
    Ok(rows.iter().map(code_row).collect::<Result<_, _>>()?)
}

async fn put_code<S: Statements>(statements: &S, code: &NewCode) -> Result<bool, S::Error> {
    let consent = &code.consent;
    lock_user(statements, &consent.person).await?;
    let written = statements
        .execute(
            "INSERT INTO oauth_codes (hash, prefix, client_id, person, workspace, redirect_uri, challenge, scopes, agent_ids,
                 expires_at)
             SELECT $1::BYTEA, $2, $3, $4, $5::BIGINT, $6, $7, $8, $9, $10::BIGINT
             WHERE EXISTS (SELECT 1 FROM memberships WHERE person = $4 AND workspace = $5)",
            &values![
                &code.hash,
                &code.prefix,
                &consent.client_id,
                consent.person.as_str(),
                consent.workspace,
                &consent.redirect_uri,
                &consent.challenge,
                consent.scopes.to_string(),
                json(&consent.agent_ids)?,
                code.expires_at,
            ],
        )
        .await?;
    if written == 0 {
        return Ok(false);
    }
    statements
        .execute(
            "DELETE FROM oauth_codes WHERE client_id = $1 AND person = $2 AND grant_id IS NULL AND hash NOT IN
                 (SELECT hash FROM oauth_codes WHERE client_id = $1 AND person = $2 AND grant_id IS NULL
                  ORDER BY expires_at DESC, hash = $3 DESC, hash LIMIT $4)",
            &values![
                &consent.client_id,
                consent.person.as_str(),
                &code.hash,
                number(CODES_MAX),
            ],
        )
        .await?;
    Ok(true)
}

async fn redeem<S: Statements>(statements: &S, redeemed: &Redeemed) -> Result<bool, S::Error> {
    let grant = &redeemed.grant;
    if let Some(person) = &grant.person {
        lock_user(statements, person).await?;
    }
    let used = statements
        .execute(
            "UPDATE oauth_codes SET grant_id = $2 WHERE hash = $1 AND grant_id IS NULL AND EXISTS
                 (SELECT 1 FROM memberships m WHERE m.person = oauth_codes.person AND m.workspace = oauth_codes.workspace)",
            &values![&redeemed.code, grant.id.as_str()],
        )
        .await?;
    if used == 0 {
        return Ok(false);
    }
    insert_grant(statements, grant, "").await?;
    statements
        .execute(
            "DELETE FROM oauth_grants WHERE client_id = $1 AND person = $2 AND no NOT IN
                 (SELECT no FROM oauth_grants WHERE client_id = $1 AND person = $2 ORDER BY no DESC LIMIT $3)",
            &values![
                &grant.client_id,
                grant.person.as_ref().map(UserId::as_str),
                number(GRANTS_MAX),
            ],
        )
        .await?;
    insert_token(statements, &redeemed.token).await?;
    Ok(true)
}

async fn put_own_grant<S: Statements>(
    statements: &S,
    grant: &NewGrant,
) -> Result<GrantId, S::Error> {
    let conflict = "ON CONFLICT (client_id) WHERE person IS NULL DO UPDATE SET scopes = $5";
    insert_grant(statements, grant, conflict).await
}

/// Inserts a grant, or does what the conflict clause says; returns its id.
async fn insert_grant<S: Statements>(
    statements: &S,
    grant: &NewGrant,
    conflict: &str,
) -> Result<GrantId, S::Error> {
    let sql = format!(
        "INSERT INTO oauth_grants (id, client_id, person, workspace, scopes, agent_ids, refresh_prefix, refresh, created_at,
             last_used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) {conflict} RETURNING id"
    );
    let refresh = grant.refresh.as_ref();
    let bound = values![
        grant.id.as_str(),
        &grant.client_id,
        grant.person.as_ref().map(UserId::as_str),
        grant.workspace,
        grant.scopes.to_string(),
        json(&grant.agent_ids)?,
        refresh.map(|(prefix, _)| prefix),
        refresh.map(|(_, hash)| hash),
        grant.created_at,
    ];
    let row = statements.first(&sql, &bound).await?;
    Ok(row.ok_or_else(|| missing("oauth_grants"))?.word("id")?)
}

async fn put_token<S: Statements>(statements: &S, token: &NewToken) -> Result<bool, S::Error> {
    let sql = "UPDATE oauth_grants SET last_used_at = $2 WHERE id = $1";
    let used = statements
        .execute(sql, &values![token.grant.as_str(), token.created_at])
        .await?;
    if used > 0 {
        insert_token(statements, token).await?;
    }
    Ok(used > 0)
}

async fn insert_token<S: Statements>(statements: &S, token: &NewToken) -> Result<(), S::Error> {
    statements
        .execute(
            "INSERT INTO oauth_tokens (hash, prefix, grant_id, scopes, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)",
            &values![
                &token.hash,
                &token.prefix,
                token.grant.as_str(),
                token.scopes.to_string(),
                token.created_at,
                token.expires_at,
            ],
        )
        .await?;
    statements
        .execute(
            "DELETE FROM oauth_tokens WHERE grant_id = $1 AND hash NOT IN
                 (SELECT hash FROM oauth_tokens WHERE grant_id = $1 ORDER BY expires_at DESC, hash = $2 DESC, hash LIMIT $3)",
            &values![token.grant.as_str(), &token.hash, number(TOKENS_MAX)],
        )
        .await?;
    Ok(())
}

async fn tokens_by_prefix<S: Statements>(
    statements: &S,
    prefix: &String,
) -> Result<Vec<TokenRow>, S::Error> {
    let sql = format!(
        "SELECT {GRANT}, t.hash, t.scopes AS token_scopes, t.created_at AS token_at, t.expires_at
         FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id {GRANT_JOINS} WHERE t.prefix = $1"
    );
    let rows = statements.query(&sql, &values![prefix]).await?;
    Ok(rows.iter().map(token_row).collect::<Result<_, _>>()?)
}

async fn delete_token<S: Statements>(statements: &S, hash: &[u8; 32]) -> Result<bool, S::Error> {
    let sql = "DELETE FROM oauth_tokens WHERE hash = $1";
    Ok(statements.execute(sql, &values![hash]).await? > 0)
}

async fn grants_by_prefix<S: Statements>(
    statements: &S,
    prefix: &String,
) -> Result<Vec<GrantRow>, S::Error> {
    let sql =
        format!("SELECT {GRANT} FROM oauth_grants g {GRANT_JOINS} WHERE g.refresh_prefix = $1");
    let rows = statements.query(&sql, &values![prefix]).await?;
    Ok(rows.iter().map(grant_row).collect::<Result<_, _>>()?)
}

async fn grants<S: Statements>(
    statements: &S,
    (filter, limit): &(GrantFilter, usize),
) -> Result<Vec<GrantRow>, S::Error> {
    let wanted: [(&str, Value); 4] = [
        ("g.id", filter.id.as_ref().map(GrantId::as_str).into()),
        ("g.client_id", filter.client_id.as_ref().into()),
        (
            "g.person",
            filter.person.as_ref().map(UserId::as_str).into(),
        ),
        ("g.workspace", filter.workspace.into()),
    ];
    let mut bound = vec![Value::Int(number(*limit))];
    let mut conditions = vec!["$1::BIGINT > 0".to_owned()];
    for (column, value) in wanted {
        if value != Value::Null {
            bound.push(value);
            conditions.push(format!("{column} = ${}", bound.len()));
        }
    }
    let conditions = conditions.join(" AND ");
    let sql = format!(
        "SELECT {GRANT} FROM oauth_grants g {GRANT_JOINS} WHERE {conditions} ORDER BY g.no DESC LIMIT $1"
    );
    let rows = statements.query(&sql, &bound).await?;
    Ok(rows.iter().map(grant_row).collect::<Result<_, _>>()?)
}

async fn delete_grant<S: Statements>(statements: &S, id: &GrantId) -> Result<bool, S::Error> {
    let sql = "DELETE FROM oauth_grants WHERE id = $1";
    Ok(statements.execute(sql, &values![id.as_str()]).await? > 0)
}

async fn purge<S: Statements>(statements: &S, expired: &Expired) -> Result<usize, S::Error> {
    let limit = number(expired.limit);
    let mut gone = 0;
    for (table, before) in [
        ("oauth_tokens", expired.tokens),
        ("oauth_codes", expired.codes),
    ] {
        let sql = format!(
            "DELETE FROM {table} WHERE hash IN (SELECT hash FROM {table}
             WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)"
        );
        gone += statements.execute(&sql, &values![before, limit]).await?;
    }
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}
