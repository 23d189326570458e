//! From a code to tokens, what they open, and how they end.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_ports::store::Millis;
use runloom_service::oauth::{ClientCredential, CreateOauthApp, PutUser, TokenRequest};
use runloom_service::tenancy::PutWorkspace;
use serde_json::Value;

use super::{CALLBACK, EMAIL, VERIFIER, house, house_with, refused, text};

#[tokio::test]
async fn consent_grants_tokens_with_scopes() {
    let house = house().await;
    let reply = house.exchange(&house.code(&[]).await).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.body["token_type"], "Bearer");
    assert_eq!(reply.body["expires_in"], 3600);
    assert_eq!(
        reply.body["scope"],
        "mantyx.identity:read runs:read models:read"
    );
    let access = text(&reply, "access_token");
    assert!(access.starts_with("mantyx_at_"));
    assert!(text(&reply, "refresh_token").starts_with("mantyx_rt_"));
    assert_eq!(house.models(&access).await.status, StatusCode::OK);
    let by_key = Request::get("/api/v1/workspaces/acme/models").header("x-api-key", &access);
    let by_key = house.app.send(by_key.body(Body::empty()).unwrap()).await;
    assert_eq!(by_key.status, StatusCode::OK);
    let user = house.get("/api/oauth/userinfo", &access).await;
    assert_eq!(user.body["email"], EMAIL);
    assert_eq!(user.body["workspace"]["slug"], "acme");
    assert!(text(&user, "sub").starts_with("user_"));
}

#[tokio::test]
async fn missing_scope_is_named() {
    let house = house().await;
    let (access, _) = house.tokens().await;
    let request = Request::post("/api/v1/workspaces/acme/agent-runs")
        .header("authorization", format!("Bearer {access}"))
        .header("content-type", "application/json")
        .body(Body::from("{}"));
    let reply = house.app.send(request.unwrap()).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(reply.code(), "insufficient_scope");
    assert_eq!(reply.body["error"], "insufficient_scope");
    assert_eq!(reply.body["required"], "runs:write");
    let challenge = r#"Bearer error="insufficient_scope", scope="runs:write""#;
    assert_eq!(reply.header("www-authenticate"), challenge);
}

#[tokio::test]
async fn token_is_bound_to_its_workspace() {
    let house = house().await;
    let (access, _) = house.tokens().await;
    let reply = house.get("/api/v1/workspaces/other/models", &access).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert!(reply.body["hint"].as_str().unwrap().contains("acme"));
    let put = PutWorkspace {
        name: None,
        without: Some(vec!["oauthApps".to_owned()]),
    };
    let tenancy = house.app.service.tenancy();
    tenancy.put_workspace("acme", put, Millis(0)).await.unwrap();
    let reply = house.models(&access).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(reply.code(), "oauth_apps_plan");
}

#[tokio::test]
async fn reused_code_revokes_its_grant() {
    let house = house().await;
    let code = house.code(&[]).await;
    let first = house.exchange(&code).await;
    let access = text(&first, "access_token");
    assert_eq!(house.models(&access).await.status, StatusCode::OK);
    refused(&house.exchange(&code).await, 400, "invalid_grant");
    assert_eq!(house.models(&access).await.status, StatusCode::UNAUTHORIZED);
    let refresh = text(&first, "refresh_token");
    refused(&house.refresh(&refresh).await, 400, "invalid_grant");
}

#[tokio::test]
async fn code_is_bound_to_app_uri_and_verifier() {
    let house = house().await;
    let code = house.code(&[]).await;
    let wrong = "another-verifier-of-forty-three-characters-at-least";
    for (name, value) in [
        ("code_verifier", wrong),
        ("code_verifier", ""),
        ("redirect_uri", "https://app.example/cb"),
        ("code", "mantyx_ac_nothing"),
    ] {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        fields.retain(|(known, _)| *known != name);
        fields.push((name, value));
        let reply = house.post("token", &fields).await;
        refused(&reply, 400, "invalid_grant");
    }
    let create = CreateOauthApp {
        redirect_uris: vec![CALLBACK.to_owned()],
        scopes: vec!["runs:read".to_owned()],
        ..CreateOauthApp::default()
    };
    let oauth = house.app.service.oauth();
    let other = oauth.create_app("acme", create, Millis(0)).await.unwrap();
    let fields = [
        ("client_id", other.client_id.as_str()),
        ("client_secret", other.client_secret.as_str()),
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    refused(&house.post("token", &fields).await, 400, "invalid_grant");
    // None of this has used the code up.
    assert_eq!(house.exchange(&code).await.status, StatusCode::OK);
}

#[tokio::test]
async fn refresh_keeps_the_refresh_token() {
    let house = house().await;
    let (first, refresh) = house.tokens().await;
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.as_str()),
        ("scope", "runs:read"),
    ];
    let reply = house.post("token", &fields).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.body["refresh_token"], refresh.as_str());
    assert_eq!(reply.body["scope"], "runs:read");
    let narrow = text(&reply, "access_token");
    assert_ne!(narrow, first);
    assert_eq!(house.models(&narrow).await.status, StatusCode::FORBIDDEN);
    assert_eq!(house.models(&first).await.status, StatusCode::OK);
    let fields = [
        ("scope", "runs:write"),
        ("grant_type", "refresh_token"),
        ("refresh_token", &refresh),
    ];
    refused(&house.post("token", &fields).await, 400, "invalid_scope");
}

#[tokio::test]
async fn revokes_access_tokens_and_grants() {
    let house = house().await;
    let (first, refresh) = house.tokens().await;
    let second = text(&house.refresh(&refresh).await, "access_token");
    for token in [&first, "mantyx_at_unknown", "nonsense"] {
        let reply = house.post("revoke", &[("token", token)]).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    }
    assert_eq!(house.models(&first).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(house.models(&second).await.status, StatusCode::OK);
    house.post("revoke", &[("token", &refresh)]).await;
    assert_eq!(house.models(&second).await.status, StatusCode::UNAUTHORIZED);
    refused(&house.refresh(&refresh).await, 400, "invalid_grant");
}

#[tokio::test]
async fn introspection_shows_own_tokens_only() {
    let house = house().await;
    let (access, refresh) = house.tokens().await;
    let told = house.post("introspect", &[("token", &access)]).await;
    assert_eq!(told.body["active"], true);
    assert_eq!(told.body["username"], EMAIL);
    assert_eq!(told.body["client_id"], house.client.client_id.as_str());
    assert!(told.body["exp"].is_i64(), "{told:?}");
    let told = house.post("introspect", &[("token", &refresh)]).await;
    assert_eq!(
        (&told.body["active"], &told.body["exp"]),
        (&Value::Bool(true), &Value::Null)
    );
    let create = CreateOauthApp {
        scopes: vec!["runs:read".to_owned()],
        client_credentials: true,
        ..CreateOauthApp::default()
    };
    let oauth = house.app.service.oauth();
    let other = oauth.create_app("other", create, Millis(0)).await.unwrap();
    let client = [
        ("client_id", other.client_id.as_str()),
        ("client_secret", other.client_secret.as_str()),
    ];
    let foreign = [client[0], client[1], ("token", access.as_str())];
    let told = house.post("introspect", &foreign).await;
    assert_eq!(told.body, serde_json::json!({ "active": false }));
    house.post("revoke", &foreign).await;
    assert_eq!(house.models(&access).await.status, StatusCode::OK);
}

#[tokio::test]
async fn client_credentials_need_permission() {
    let house = house().await;
    let ask = [("grant_type", "client_credentials")];
    refused(&house.post("token", &ask).await, 400, "unauthorized_client");
    let create = CreateOauthApp {
        client_credentials: true,
        ..CreateOauthApp::default()
    };
    let house = house_with(create, &["acme"]).await;
    let reply = house.post("token", &ask).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.body["refresh_token"], Value::Null);
    let access = text(&reply, "access_token");
    assert_eq!(house.models(&access).await.status, StatusCode::OK);
    let nobody = house.get("/api/oauth/userinfo", &access).await;
    assert_eq!(nobody.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn refuses_two_client_credentials() {
    let house = house().await;
    let wrong = [("client_secret", "mantyx_oas_wrong"), ("token", "x")];
    let reply = house.post("revoke", &wrong).await;
    refused(&reply, 401, "invalid_client");
    assert!(reply.header("www-authenticate").starts_with("Basic"));
    let unknown = [("client_id", "mantyx_oa_unknown"), ("token", "x")];
    refused(&house.post("revoke", &unknown).await, 401, "invalid_client");
    let client = &house.client;
    let basic = STANDARD.encode(format!("{}:{}", client.client_id, client.client_secret));
    for (body, status) in [
        ("token=x".to_owned(), 200),
        (format!("token=x&client_id={}", client.client_id), 200),
        ("token=x&client_id=mantyx_oa_other".to_owned(), 400),
        (
            format!("token=x&client_id={}&client_secret=y", client.client_id),
            400,
        ),
        (String::new(), 400),
    ] {
        let request = Request::post("/api/oauth/revoke")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("authorization", format!("Basic {basic}"))
            .body(Body::from(body.clone()));
        let reply = house.app.send(request.unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{body}");
    }
}

#[tokio::test]
async fn lists_and_revokes_grants() {
    let house = house().await;
    let (first, _) = house.tokens().await;
    let (second, _) = house.tokens().await;
    let own = house.get("/api/oauth/grants", &first).await;
    let grants = own.body["grants"].as_array().unwrap().clone();
    assert_eq!(grants.len(), 2, "{own:?}");
    assert_eq!(grants[0]["clientId"], house.client.client_id.as_str());
    let by_key = house.get("/api/oauth/grants", &house.app.key).await;
    assert_eq!(by_key.body["grants"].as_array().unwrap().len(), 2);
    let tenancy = house.app.service.tenancy();
    let stranger = tenancy
        .create_key("other", Default::default(), Millis(0))
        .await;
    let stranger = stranger.unwrap().key;
    let none = house.get("/api/oauth/grants", &stranger).await;
    assert_eq!(none.body["grants"].as_array().unwrap().len(), 0);
    let delete = async |token: &str, id: &Value| {
        let request = Request::delete(format!("/api/oauth/grants/{}", id.as_str().unwrap()))
            .header("authorization", format!("Bearer {token}"));
        house
            .app
            .send(request.body(Body::empty()).unwrap())
            .await
            .status
    };
    let newest = &grants[0]["id"];
    assert_eq!(delete(&stranger, newest).await, StatusCode::NOT_FOUND);
    assert_eq!(delete(&first, newest).await, StatusCode::OK);
    assert_eq!(house.models(&second).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(house.models(&first).await.status, StatusCode::OK);
    let none = house.get("/api/oauth/grants", "").await;
    assert_eq!(none.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn grants_end_with_user_and_app() {
    for ending in ["leaves", "goes", "app"] {
        let house = house().await;
        let (access, _) = house.tokens().await;
        assert_eq!(house.models(&access).await.status, StatusCode::OK);
        let oauth = house.app.service.oauth();
        match ending {
            "leaves" => {
                let put = PutUser {
                    workspaces: Some(vec!["other".to_owned()]),
                    ..PutUser::default()
                };
                oauth.put_user(EMAIL, put, Millis(0)).await.map(drop)
            }
            "goes" => oauth.delete_user(EMAIL).await,
            _ => oauth.delete_app("acme", &house.client.client_id).await,
        }
        .unwrap();
        let reply = house.models(&access).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{ending}");
    }
}

#[tokio::test]
async fn metadata_names_the_endpoints() {
    let house = house().await;
    let path = "/.well-known/oauth-authorization-server";
    let request = Request::get(path).body(Body::empty()).unwrap();
    let reply = house.app.send(request).await;
    assert_eq!(reply.body["issuer"], "http://127.0.0.1:8787");
    let routes = runloom_http::route_table();
    for endpoint in [
        "authorization",
        "token",
        "revocation",
        "introspection",
        "userinfo",
    ] {
        let url = text(&reply, &format!("{endpoint}_endpoint"));
        let path = url.strip_prefix("http://127.0.0.1:8787").unwrap();
        assert!(routes.iter().any(|(_, known)| known == path), "{url}");
    }
}

#[test]
fn routes_require_documented_scopes() {
    let document: Value = serde_json::from_str(runloom_http::OPENAPI).unwrap();
    let table = runloom_http::scope_table();
    assert!(table.len() >= 16, "{table:?}");
    for (method, path, scope) in &table {
        let said = &document["paths"][path][method]["x-oauth-scope"];
        assert_eq!(said, scope.as_str(), "{method} {path}");
    }
    let inside = |path: &str| {
        path.starts_with("/api/v1/workspaces/") || path.starts_with("/api/a2a/") || path == "/mcp"
    };
    let routes = runloom_http::route_table();
    let inside = routes.iter().filter(|(_, path)| inside(path)).count();
    assert_eq!(inside, table.len());
}

#[tokio::test]
async fn tokens_and_codes_expire() {
    let create = CreateOauthApp {
        client_credentials: true,
        ..CreateOauthApp::default()
    };
    let house = house_with(create, &["acme"]).await;
    let (service, client) = (&house.app.service, &house.client);
    let oauth = service.oauth();
    let credential = ClientCredential {
        id: client.client_id.clone(),
        secret: client.client_secret.clone(),
        or_secret: None,
    };
    let now = service.clock().now();
    let app = oauth.client(Some(&credential), service.rates(), now);
    let app = app.await.unwrap();
    let at = |seconds: i64| Millis(service.clock().now().0 + seconds * 1000);
    let request = |pairs: &[(&str, &str)]| TokenRequest {
        pairs: pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    let own = request(&[("grant_type", "client_credentials")]);
    for (made, status) in [(-3601, 401), (-3500, 200)] {
        let issued = oauth.token(&app, &own, service.rates(), at(made)).await;
        let reply = house.models(&issued.unwrap().access_token).await;
        assert_eq!(reply.status.as_u16(), status, "{made}");
    }
    let code = house.code(&[]).await;
    let exchange = request(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ]);
    let late = oauth.token(&app, &exchange, service.rates(), at(601)).await;
    assert!(late.unwrap_err().to_string().contains("expired"));
    let early = oauth.token(&app, &exchange, service.rates(), at(590)).await;
    assert!(early.is_ok());
}
