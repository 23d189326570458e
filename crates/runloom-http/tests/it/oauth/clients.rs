//! How apps prove who they are, and how far what they were given reaches.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runloom_ports::store::Millis;
use runloom_service::error::{Error, OAuthFault};
use runloom_service::oauth::{ClientCredential, CreateOauthApp, Visibility};
use runloom_service::tenancy::PutWorkspace;

use super::{Browser, CALLBACK, House, house, house_with, refused, sent_back, text, value};

const CHOSEN: &str = "mantyx_oa_chosen";

/// An app whose secret the operator chose.
async fn choose_secret(house: &House, secret: &str) {
    let create = CreateOauthApp {
        redirect_uris: vec![CALLBACK.to_owned()],
        scopes: vec!["runs:read".to_owned()],
        ..CreateOauthApp::default()
    };
    let oauth = house.app.service.oauth();
    let ensured = oauth.ensure_app("acme", (CHOSEN, secret), create, Millis(0));
    ensured.await.unwrap();
}

#[tokio::test]
async fn accepts_secrets_encoded_or_not() {
    let house = house().await;
    choose_secret(&house, "p+ss%41word").await;
    for (sent, status) in [
        ("p+ss%41word", 200),
        ("p%2Bss%2541word", 200),
        ("p%20ssAword", 401),
        ("p ssAword", 401),
    ] {
        let basic = STANDARD.encode(format!("{CHOSEN}:{sent}"));
        let request = Request::post("/api/oauth/revoke")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("authorization", format!("Basic {basic}"))
            .body(Body::from("token=x"));
        let reply = house.app.send(request.unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{sent}");
    }
}

#[tokio::test]
async fn limits_guesses_of_client_secrets() {
    let house = house().await;
    choose_secret(&house, "chosen-by-hand").await;
    let service = &house.app.service;
    let client = async |id: &str, secret: &str, other: Option<&str>, at: i64| {
        let credential = ClientCredential {
            id: id.to_owned(),
            secret: secret.to_owned(),
            or_secret: other.map(ToOwned::to_owned),
        };
        let oauth = service.oauth();
        let client = oauth.client(Some(&credential), service.rates(), Millis(at));
        client.await.map(drop)
    };
    let wrong = |found: Result<(), Error>| {
        let fault = OAuthFault::InvalidClient;
        assert!(matches!(found, Err(Error::OAuth { fault: got, .. }) if got == fault));
    };
    let (generated, long) = (&house.client.client_id, &house.client.client_secret);
    let padded = "%67%75%65%73%73%67%75%65%73%73%67%75%65%73%73";
    for id in [CHOSEN, generated] {
        for _ in 0..30 {
            wrong(client(id, "a-wrong-guess", None, 0).await);
            wrong(client(id, padded, Some("guessguessguess"), 0).await);
        }
        for (secret, other) in [("a-guess", None), (padded, Some("guessguessguess"))] {
            let found = client(id, secret, other, 0).await;
            assert!(matches!(found, Err(Error::RateLimited(_))), "{found:?}");
        }
    }
    let found = client(CHOSEN, "chosen-by-hand", None, 0).await;
    assert!(matches!(found, Err(Error::RateLimited(_))), "{found:?}");
    client(generated, long, None, 0).await.unwrap();
    client(CHOSEN, "chosen-by-hand", None, 62_000)
        .await
        .unwrap();
    // Being right costs nothing.
    for _ in 0..100 {
        client(CHOSEN, "chosen-by-hand", None, 62_000)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn token_lists_grants_of_its_workspace() {
    let public = CreateOauthApp {
        visibility: Visibility::Public,
        ..CreateOauthApp::default()
    };
    let house = house_with(public, &["acme", "other"]).await;
    let mut given = Vec::new();
    for workspace in ["acme", "other"] {
        let mut browser = Browser::at(&house, &[]);
        browser.sign_in().await;
        let allow = [("step", "allow"), ("workspace", workspace)];
        let pairs = sent_back(&browser.submit(&allow).await);
        let reply = house.exchange(value(&pairs, "code")).await;
        let access = text(&reply, "access_token");
        let list = house.get("/api/oauth/grants", &access).await;
        let grants = list.body["grants"].as_array().unwrap().clone();
        assert_eq!(grants.len(), 1, "{list:?}");
        assert_eq!(grants[0]["workspace"], workspace);
        given.push((access, grants[0]["id"].as_str().unwrap().to_owned()));
    }
    let (own, foreign) = (&given[1], &given[0]);
    for (id, status) in [(&foreign.1, 404), (&own.1, 200)] {
        let request = Request::delete(format!("/api/oauth/grants/{id}"))
            .header("authorization", format!("Bearer {}", own.0))
            .body(Body::empty());
        let reply = house.app.send(request.unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    }
    assert_eq!(house.models(&foreign.0).await.status, StatusCode::OK);
}

#[tokio::test]
async fn refuses_tokens_without_the_plan_feature() {
    let create = CreateOauthApp {
        client_credentials: true,
        ..CreateOauthApp::default()
    };
    let house = house_with(create, &["acme"]).await;
    let (access, refresh) = house.tokens().await;
    let code = house.code(&[]).await;
    let own = [("grant_type", "client_credentials")];
    assert_eq!(house.post("token", &own).await.status, StatusCode::OK);
    let put = PutWorkspace {
        name: None,
        without: Some(vec!["oauthApps".to_owned()]),
    };
    let tenancy = house.app.service.tenancy();
    tenancy.put_workspace("acme", put, Millis(0)).await.unwrap();
    let fault = "unauthorized_client";
    refused(&house.refresh(&refresh).await, 400, fault);
    refused(&house.exchange(&code).await, 400, fault);
    refused(&house.post("token", &own).await, 400, fault);
    for token in [&access, &refresh] {
        let told = house.post("introspect", &[("token", token)]).await;
        assert_eq!(told.body, serde_json::json!({ "active": false }));
    }
    let list = house.get("/api/oauth/grants", &access).await;
    assert_eq!(list.status, StatusCode::FORBIDDEN);
    assert_eq!(list.code(), "oauth_apps_plan");
    // What was allowed is there again when apps are.
    let put = PutWorkspace {
        name: None,
        without: Some(Vec::new()),
    };
    tenancy.put_workspace("acme", put, Millis(0)).await.unwrap();
    assert_eq!(house.refresh(&refresh).await.status, StatusCode::OK);
    assert_eq!(house.exchange(&code).await.status, StatusCode::OK);
}
