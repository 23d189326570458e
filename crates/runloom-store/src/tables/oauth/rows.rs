//! Rows of the OAuth tables.

use runloom_ports::store::{AppRow, CodeRow, Consent, GrantRow, TokenRow};

use crate::sql::{Malformed, Row};
use crate::tables::tenancy::workspace_row;

pub(super) const APP: &str =
    "client_id, oauth_apps.workspace AS app_workspace, oauth_apps.name AS app_name, secret, public,
    redirect_uris, oauth_apps.scopes AS app_scopes, client_credentials, oauth_apps.created_at AS app_at";

pub(super) const GRANT: &str = "workspaces.no, workspaces.slug, workspaces.name, workspaces.switched_off,
    oauth_apps.client_id AS client_id, oauth_apps.workspace AS app_workspace, oauth_apps.name AS app_name, secret, public,
    redirect_uris, oauth_apps.scopes AS app_scopes, client_credentials, oauth_apps.created_at AS app_at,
    g.id AS grant_id, g.scopes AS grant_scopes, g.agent_ids, g.refresh, g.created_at AS grant_at, g.last_used_at,
    people.id AS person_id, people.email AS email";

/// The tables that [`GRANT`] reads besides `oauth_grants g`.
pub(super) const GRANT_JOINS: &str = "JOIN workspaces ON workspaces.no = g.workspace
    JOIN oauth_apps ON oauth_apps.client_id = g.client_id LEFT JOIN people ON people.id = g.person";

pub(super) fn app_row(row: &Row) -> Result<AppRow, Malformed> {
    Ok(AppRow {
        client_id: row.text("client_id")?,
        workspace: row.workspace("app_workspace")?,
        name: row.text("app_name")?,
        secret: row.hash("secret")?,
        public: row.bool("public")?,
        redirect_uris: row.json("redirect_uris")?,
        scopes: row.word("app_scopes")?,
        client_credentials: row.bool("client_credentials")?,
        created_at: row.time("app_at")?,
    })
}

pub(super) fn code_row(row: &Row) -> Result<CodeRow, Malformed> {
    Ok(CodeRow {
        hash: row.hash("hash")?,
        consent: Consent {
            client_id: row.text("client_id")?,
            person: row.word("person")?,
            workspace: row.workspace("workspace")?,
            redirect_uri: row.text("redirect_uri")?,
            challenge: row.text("challenge")?,
            scopes: row.word("scopes")?,
            agent_ids: row.json("agent_ids")?,
        },
        expires_at: row.time("expires_at")?,
        grant: row.maybe_word("grant_id")?,
    })
}

pub(super) fn grant_row(row: &Row) -> Result<GrantRow, Malformed> {
    let person = row.maybe_word("person_id")?;
    Ok(GrantRow {
        id: row.word("grant_id")?,
        app: app_row(row)?,
        person: person.zip(row.maybe_text("email")?),
        workspace: workspace_row(row)?,
        scopes: row.word("grant_scopes")?,
        agent_ids: row.json("agent_ids")?,
        refresh: row.maybe_hash("refresh")?,
        created_at: row.time("grant_at")?,
        last_used_at: row.time("last_used_at")?,
    })
}

pub(super) fn token_row(row: &Row) -> Result<TokenRow, Malformed> {
    Ok(TokenRow {
        hash: row.hash("hash")?,
        grant: grant_row(row)?,
        scopes: row.word("token_scopes")?,
        created_at: row.time("token_at")?,
        expires_at: row.time("expires_at")?,
    })
}
