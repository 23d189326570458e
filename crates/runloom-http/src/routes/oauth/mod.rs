//! The authorisation server: endpoints for apps, and the pages for users (`consent` has the flow, `page` the HTML).

mod consent;
mod describe;
mod metadata;
mod page;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, PRAGMA};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_ports::clock::rfc3339;
use runloom_ports::store::{AppRow, GrantRow, WorkspaceRow};
use runloom_protocol::oauth::{
    Empty, Grant, GrantList, GrantWorkspace, Introspection, TokenResponse, UserInfo,
};
use runloom_protocol::resource;
use runloom_service::error::{Error, OAuthFault};
use runloom_service::oauth::{ACCESS_LIVES, ClientCredential, TokenRequest};
use url::form_urlencoded;

use crate::app::App;
use crate::error::Answer;
use crate::extract::{Form, Target};
use crate::guard::credential;
use crate::route::Access::Open;
use crate::route::Route;

/// Path of the consent page.
const AUTHORIZE: &str = "/api/oauth/authorize";

const BEARER: &str = "Bearer";

pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::get(AUTHORIZE, Open, consent::show, describe::authorize()),
        Route::post(AUTHORIZE, Open, consent::answer, describe::authorize_form()),
        Route::post("/api/oauth/token", Open, token, describe::token()),
        Route::post("/api/oauth/revoke", Open, revoke, describe::revoke()),
        Route::post(
            "/api/oauth/introspect",
            Open,
            introspect,
            describe::introspect(),
        ),
    ];
    routes.extend([
        Route::get("/api/oauth/userinfo", Open, userinfo, describe::user_info()),
        Route::get(
            "/api/oauth/grants",
            Open,
            list_grants,
            describe::list_grants(),
        ),
        Route::delete(
            "/api/oauth/grants/{id}",
            Open,
            delete_grant,
            describe::delete_grant(),
        ),
        Route::get(
            "/.well-known/oauth-authorization-server",
            Open,
            metadata::metadata,
            describe::metadata(),
        ),
    ]);
    routes
}

async fn token(State(app): State<App>, headers: HeaderMap, form: Form) -> Answer<Response> {
    let service = &app.service;
    let client = client(&app, &headers, &form).await?;
    let request = TokenRequest { pairs: form.0 };
    let issued = service
        .oauth()
        .token(&client, &request, service.rates(), service.clock().now());
    let issued = issued.await?;
    let body = TokenResponse {
        access_token: issued.access_token,
        token_type: BEARER.to_owned(),
        expires_in: ACCESS_LIVES.as_secs(),
        scope: issued.scopes.to_string(),
        refresh_token: issued.refresh_token,
    };
    Ok(([(PRAGMA, "no-cache")], Json(body)).into_response())
}

async fn revoke(State(app): State<App>, headers: HeaderMap, form: Form) -> Answer<Json<Empty>> {
    let client = client(&app, &headers, &form).await?;
    let token = needed_token(&form)?;
    app.service.oauth().revoke(&client, token).await?;
    Ok(Json(Empty {}))
}

async fn introspect(
    State(app): State<App>,
    headers: HeaderMap,
    form: Form,
) -> Answer<Json<Introspection>> {
    let client = client(&app, &headers, &form).await?;
    let token = needed_token(&form)?;
    let now = app.service.clock().now();
    let found = app.service.oauth().introspect(&client, token, now).await?;
    let Some(facts) = found else {
        return Ok(Json(Introspection::default()));
    };
    let grant = facts.grant;
    let (user, username) = match grant.person {
        Some((id, email)) => (id.to_string(), Some(email)),
        None => (grant.app.client_id.clone(), None),
    };
    Ok(Json(Introspection {
        active: true,
        scope: Some(facts.scopes.to_string()),
        client_id: Some(grant.app.client_id),
        token_type: Some(BEARER.to_owned()),
        iat: Some(facts.created_at.0.div_euclid(1000)),
        sub: Some(user),
        iss: Some(app.settings.issuer.clone()),
        grant_id: Some(grant.id.to_string()),
        workspace: Some(grant_workspace(grant.workspace)),
        username,
        exp: facts.expires_at.map(|end| end.0.div_euclid(1000)),
    }))
}

async fn userinfo(State(app): State<App>, headers: HeaderMap) -> Answer<Json<UserInfo>> {
    let now = app.service.clock().now();
    let service = &app.service;
    let found = service
        .oauth()
        .user_info(credential(&headers), service.rates(), now);
    let user = found.await?;
    Ok(Json(UserInfo {
        sub: user.sub,
        email: user.email,
        workspace: grant_workspace(user.workspace),
    }))
}

fn grant_workspace(row: WorkspaceRow) -> GrantWorkspace {
    GrantWorkspace {
        id: row.slug.clone(),
        slug: row.slug,
        name: row.name,
    }
}

fn grant(row: GrantRow) -> Grant {
    Grant {
        id: row.id.to_string(),
        client_id: row.app.client_id,
        app_name: row.app.name,
        user_id: row.person.map(|(id, _)| id.to_string()),
        workspace: row.workspace.slug,
        scopes: row.scopes.iter().map(|scope| scope.to_string()).collect(),
        agent_ids: row.agent_ids,
        created_at: rfc3339(row.created_at),
        last_used_at: rfc3339(row.last_used_at),
    }
}

async fn list_grants(State(app): State<App>, headers: HeaderMap) -> Answer<Json<GrantList>> {
    let (service, now) = (&app.service, app.service.clock().now());
    let oauth = service.oauth();
    let of = oauth
        .grants_of((service.auth(), service.rates()), credential(&headers), now)
        .await?;
    let rows = oauth.list_grants(of).await?;
    let grants = rows.into_iter().map(grant).collect();
    Ok(Json(GrantList { grants }))
}

async fn delete_grant(
    State(app): State<App>,
    target: Target,
    headers: HeaderMap,
) -> Answer<Json<resource::Ok>> {
    let (service, now) = (&app.service, app.service.clock().now());
    let oauth = service.oauth();
    let of = oauth
        .grants_of((service.auth(), service.rates()), credential(&headers), now)
        .await?;
    oauth.delete_grant(of, &target.id).await?;
    Ok(Json(resource::Ok::default()))
}

fn needed_token(form: &Form) -> Answer<&str> {
    let token = form.get("token").filter(|token| !token.is_empty());
    let missing = || OAuthFault::InvalidRequest.because("`token` is missing");
    Ok(token.ok_or_else(missing)?)
}

/// The credential of the calling app, by HTTP Basic or in the form, not both.
async fn client(app: &App, headers: &HeaderMap, form: &Form) -> Answer<AppRow> {
    let basic = basic(headers)?;
    let (id, secret) = (form.get("client_id"), form.get("client_secret"));
    let posted = id.zip(secret).map(|(id, secret)| ClientCredential {
        id: id.to_owned(),
        secret: secret.to_owned(),
        or_secret: None,
    });
    let twice = OAuthFault::InvalidRequest.because("Send the client's secret in one way only");
    let credential = match (basic, posted) {
        (Some(_), Some(_)) => return Err(twice.into()),
        (Some(basic), None) if id.is_some_and(|id| id != basic.id) => return Err(twice.into()),
        (one, other) => one.or(other),
    };
    let (service, now) = (&app.service, app.service.clock().now());
    let client = service
        .oauth()
        .client(credential.as_ref(), service.rates(), now);
    Ok(client.await?)
}

/// `Authorization: Basic` with form-encoded parts (RFC 6749, section 2.3.1). Many programs do not encode them, so
/// both readings of a secret are accepted.
fn basic(headers: &HeaderMap) -> Result<Option<ClientCredential>, Error> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(None);
    };
    let malformed = || OAuthFault::InvalidClient.because("The Authorization header is malformed");
    let text = value.to_str().map_err(|_| malformed())?;
    let (scheme, rest) = text.split_once(' ').ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(malformed());
    }
    let pair = STANDARD.decode(rest.trim()).map_err(|_| malformed())?;
    let pair = String::from_utf8(pair).map_err(|_| malformed())?;
    let (id, secret) = pair.split_once(':').ok_or_else(malformed)?;
    let read = decoded(secret);
    Ok(Some(ClientCredential {
        id: decoded(id),
        or_secret: (read != secret).then_some(read),
        secret: secret.to_owned(),
    }))
}

fn decoded(text: &str) -> String {
    let mut pairs = form_urlencoded::parse(text.as_bytes());
    let first = pairs.next();
    // A part with `=` or `&` was not encoded.
    match (first, pairs.next()) {
        (Some((name, value)), None) if value.is_empty() && !text.contains('=') => name.into_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, String)> {
        let mut headers = HeaderMap::new();
        let value = format!("Basic {}", STANDARD.encode(text));
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        let found = basic(&headers).ok().flatten();
        found.map(|client| (client.id, client.or_secret.unwrap_or(client.secret)))
    }

    #[test]
    fn reads_basic_credentials_encoded_or_not() {
        for (text, id, secret) in [
            ("mantyx_oa_1:mantyx_oas_2", "mantyx_oa_1", "mantyx_oas_2"),
            ("a%3Ab:c%25d", "a:b", "c%d"),
            ("a:b=c", "a", "b=c"),
            ("a:", "a", ""),
        ] {
            let expected = Some((id.to_owned(), secret.to_owned()));
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read("nothing"), None);
    }
}
