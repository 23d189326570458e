//! What people see, and what a browser is believed.

use axum::http::StatusCode;
use runloom_http::Settings;
use runloom_ports::store::Millis;
use runloom_service::oauth::{CreateOauthApp, PutUser, Visibility};
use runloom_service::rate::RateLimits;

use super::{Browser, EMAIL, PASSWORD, house, house_at, house_with, sent_back, text, value};
use crate::app::TestApp;

#[tokio::test]
async fn never_redirects_to_unregistered_uris() {
    let house = house().await;
    for (name, bad) in [
        ("client_id", "mantyx_oa_unknown"),
        ("client_id", ""),
        ("redirect_uri", "https://evil.example/"),
        ("redirect_uri", "https://app.example/cb"),
        ("redirect_uri", ""),
    ] {
        let reply = Browser::at(&house, &[(name, bad)]).open().await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{name} {bad}");
        assert!(!reply.headers.contains_key("location"));
        assert!(!reply.headers.contains_key("www-authenticate"));
        assert!(reply.header("content-type").starts_with("text/html"));
    }
    let mut twice = Browser::at(&house, &[]);
    twice.query = format!("{}&redirect_uri=https%3A%2F%2Fevil.example", twice.query);
    assert_eq!(twice.open().await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn reports_request_errors_at_the_redirect_uri() {
    let house = house().await;
    for (name, bad, error) in [
        ("response_type", "token", "unsupported_response_type"),
        ("response_type", "", "invalid_request"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("code_challenge_method", "", "invalid_request"),
        ("scope", "runs:write", "invalid_scope"),
        ("scope", "nonsense", "invalid_scope"),
    ] {
        let reply = Browser::at(&house, &[(name, bad)]).open().await;
        let pairs = sent_back(&reply);
        assert_eq!(value(&pairs, "error"), error, "{name} {bad}");
        assert_eq!(value(&pairs, "state"), "x y&z");
        assert_eq!(value(&pairs, "code"), "");
    }
}

#[tokio::test]
async fn pages_escape_text_and_refuse_frames() {
    let house = house().await;
    let mut browser = Browser::at(&house, &[]);
    let reply = browser.open().await;
    let policy = reply.header("content-security-policy");
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(policy.contains("form-action 'self' https:"), "{policy}");
    assert_eq!(reply.header("x-frame-options"), "DENY");
    assert_eq!(reply.header("referrer-policy"), "no-referrer");
    assert!(browser.page.contains("Weather &lt;Kit&gt;"));
    assert!(!browser.page.contains("<Kit>") && !browser.page.contains("<script"));
}

#[tokio::test]
async fn refuses_forged_forms() {
    let house = house().await;
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    let allow = [("step", "allow"), ("workspace", "acme")];
    let page = std::mem::take(&mut browser.page);
    assert_eq!(browser.submit(&allow).await.status, StatusCode::FORBIDDEN);
    // The form of another request, at the same browser.
    let mut other = Browser::at(&house, &[("state", "other")]);
    other.cookie.clone_from(&browser.cookie);
    other.page.clone_from(&page);
    assert_eq!(other.submit(&allow).await.status, StatusCode::FORBIDDEN);
    // The form at another browser, and with a cookie that was touched.
    for cookie in [
        None,
        browser
            .cookie
            .as_ref()
            .map(|text| text.replace("user_", "user_x")),
    ] {
        let mut stranger = Browser::at(&house, &[]);
        stranger.cookie = cookie;
        stranger.page.clone_from(&page);
        assert_eq!(stranger.submit(&allow).await.status, StatusCode::FORBIDDEN);
    }
    browser.page = page;
    sent_back(&browser.submit(&allow).await);
}

#[tokio::test]
async fn denial_redirects_without_a_code() {
    let house = house().await;
    let mut browser = Browser::at(&house, &[]);
    browser.open().await;
    let pairs = sent_back(&browser.submit(&[("step", "deny")]).await);
    assert_eq!(value(&pairs, "error"), "access_denied");
    assert_eq!(value(&pairs, "state"), "x y&z");
}

#[tokio::test]
async fn login_failures_look_alike_and_are_limited() {
    let house = house().await;
    let mut browser = Browser::at(&house, &[]);
    browser.open().await;
    let mut pages = Vec::new();
    for email in [EMAIL, "eve@example.com"] {
        let fields = [("step", "sign_in"), ("email", email), ("password", "wrong")];
        let reply = browser.submit(&fields).await;
        assert_eq!(reply.status, StatusCode::OK);
        let words = browser.page.split("<form").next().unwrap().to_owned();
        assert!(words.contains("The address or the password is wrong"));
        pages.push(words);
    }
    assert_eq!(pages[0], pages[1]);
    let fields = [("step", "sign_in"), ("email", EMAIL), ("password", "wrong")];
    for _ in 0..9 {
        assert_eq!(browser.submit(&fields).await.status, StatusCode::OK);
    }
    let reply = browser.submit(&fields).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(reply.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn new_password_ends_login_sessions() {
    let house = house().await;
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    assert!(browser.page.contains("Allow Weather"));
    let put = PutUser {
        password: Some("another long password".to_owned()),
        ..PutUser::default()
    };
    let oauth = house.app.service.oauth();
    oauth.put_user(EMAIL, put, Millis(9)).await.unwrap();
    browser.open().await;
    assert!(browser.page.contains("Sign in"), "{}", browser.page);
}

#[tokio::test]
async fn private_app_is_limited_to_its_workspace() {
    let house = house_with(CreateOauthApp::default(), &["other"]).await;
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    assert!(browser.page.contains("You cannot use"), "{}", browser.page);
    for workspace in ["acme", "other"] {
        let allow = [("step", "allow"), ("workspace", workspace)];
        let mut browser = Browser::at(&house, &[]);
        browser.sign_in().await;
        let reply = browser.submit(&allow).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{workspace}");
    }
}

#[tokio::test]
async fn public_app_uses_the_chosen_workspace() {
    let public = CreateOauthApp {
        visibility: Visibility::Public,
        ..CreateOauthApp::default()
    };
    let house = house_with(public, &["other", "third"]).await;
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    assert!(browser.page.contains("Choose a workspace"));
    let chosen = [("step", "workspace"), ("workspace", "third")];
    browser.submit(&chosen).await;
    assert!(browser.page.contains("Allow Weather"), "{}", browser.page);
    let allow = [("step", "allow"), ("workspace", "third")];
    let pairs = sent_back(&browser.submit(&allow).await);
    let reply = house.exchange(value(&pairs, "code")).await;
    let access = text(&reply, "access_token");
    let third = house.get("/api/v1/workspaces/third/models", &access).await;
    assert_eq!(third.status, StatusCode::OK);
    assert_eq!(house.models(&access).await.status, StatusCode::NOT_FOUND);
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    let strange = [("step", "allow"), ("workspace", "acme")];
    let reply = browser.submit(&strange).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn pages_keep_the_public_path() {
    for (issuer, path) in [
        ("http://h.example/agents", "/agents/api/oauth"),
        ("https://h.example/agents/", "/; Secure"),
        ("http://h.example", "/api/oauth"),
    ] {
        let settings = Settings {
            issuer: issuer.to_owned(),
            ..Settings::default()
        };
        let app = TestApp::with(RateLimits::default(), settings).await;
        let house = house_at(app, CreateOauthApp::default(), &["acme"]).await;
        let prefix = if issuer.contains("agents") {
            "/agents"
        } else {
            ""
        };
        let mut browser = Browser::at(&house, &[]);
        let reply = browser.open().await;
        let cookie = reply.header("set-cookie");
        assert!(cookie.contains(&format!("; Path={path}; Max")), "{cookie}");
        let action = format!("action=\"{prefix}/api/oauth/authorize?client_id=");
        assert!(browser.page.contains(&action), "{}", browser.page);
        let fields = [
            ("step", "sign_in"),
            ("email", EMAIL),
            ("password", PASSWORD),
        ];
        let reply = browser.submit(&fields).await;
        let again = format!("{prefix}/api/oauth/authorize?{}", browser.query);
        assert_eq!(reply.header("location"), again);
    }
}

#[tokio::test]
async fn limits_consents() {
    let limits = RateLimits {
        writes_per_minute: 2,
        ..RateLimits::default()
    };
    let app = TestApp::with(limits, Settings::default()).await;
    let house = house_at(app, CreateOauthApp::default(), &["acme"]).await;
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    let page = browser.page.clone();
    let allow = [("step", "allow"), ("workspace", "acme")];
    for status in [303, 303, 429] {
        browser.page.clone_from(&page);
        let reply = browser.submit(&allow).await;
        assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    }
}

#[tokio::test]
async fn consent_names_scopes_without_agent_limits() {
    let stops = "stop what any agent does";
    let reads = "read what was asked of every agent";
    for (scopes, said, unsaid) in [
        ("agents:read", vec![], vec![stops, reads]),
        ("agents:read runs:read", vec![reads], vec![stops]),
        ("sessions:write sessions:read", vec![stops, reads], vec![]),
    ] {
        let create = CreateOauthApp {
            scopes: scopes.split(' ').map(ToOwned::to_owned).collect(),
            ..CreateOauthApp::default()
        };
        let house = house_with(create, &["acme"]).await;
        for slug in ["one", "two"] {
            let body = serde_json::json!({ "systemPrompt": "x", "name": "Helper" });
            let kind = runloom_ports::store::DocumentKind::Agent;
            let expect = runloom_ports::store::Expect::Anything;
            let registry = house.app.service.registry();
            let put = registry.put("acme", kind, slug, &body, expect);
            put.await.unwrap();
        }
        let mut browser = Browser::at(&house, &[]);
        browser.sign_in().await;
        let page = &browser.page;
        assert!(said.iter().all(|words| page.contains(words)), "{page}");
        assert!(!unsaid.iter().any(|words| page.contains(words)), "{page}");
        for slug in ["one", "two"] {
            assert!(
                page.contains(&format!("Helper <code>{slug}</code>")),
                "{page}"
            );
        }
        assert!(page.contains("until an administrator takes this back"));
    }
}

#[tokio::test]
async fn grant_is_limited_to_its_agents() {
    let create = CreateOauthApp {
        scopes: vec!["agents:read".to_owned()],
        ..CreateOauthApp::default()
    };
    let house = house_with(create, &["acme"]).await;
    let service = &house.app.service;
    let mut ids = Vec::new();
    for slug in ["one", "two"] {
        let body = serde_json::json!({ "systemPrompt": "x" });
        let kind = runloom_ports::store::DocumentKind::Agent;
        let expect = runloom_ports::store::Expect::Anything;
        let put = service.registry().put("acme", kind, slug, &body, expect);
        ids.push(put.await.unwrap().document.id);
    }
    let mut browser = Browser::at(&house, &[]);
    browser.sign_in().await;
    let page = browser.page.clone();
    assert!(page.contains(&ids[0]) && page.contains(&ids[1]), "{page}");
    let allow = [("step", "allow"), ("workspace", "acme"), ("agents", "some")];
    let none = browser.submit(&allow).await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    browser.page = page;
    let allow = [allow[0], allow[1], allow[2], ("agent", ids[1].as_str())];
    let pairs = sent_back(&browser.submit(&allow).await);
    let reply = house.exchange(value(&pairs, "code")).await;
    let access = text(&reply, "access_token");
    let agents = house.get("/api/v1/workspaces/acme/agents", &access).await;
    let listed = agents.body["agents"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "{agents:?}");
    assert_eq!(listed[0]["id"], ids[1].as_str());
}
