//! The authorization server, with an app and a browser that ask it.

mod clients;
mod pages;
mod tokens;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use runloom_ports::store::Millis;
use runloom_service::oauth::{CreateOauthApp, OauthAppCreated, PutUser};
use runloom_service::tenancy::PutWorkspace;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::app::{Reply, TestApp};

const CALLBACK: &str = "https://app.example/cb?from=runloom";
const VERIFIER: &str = "a-verifier-of-forty-three-characters-at-least-0";
const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery";
const SCOPES: &[&str] = &["mantyx.identity:read", "models:read", "runs:read"];

/// A server with an app, and with a person who belongs to `acme`.
struct House {
    app: TestApp,
    client: OauthAppCreated,
}

async fn house() -> House {
    house_with(CreateOauthApp::default(), &["acme"]).await
}

async fn house_with(create: CreateOauthApp, workspaces: &[&str]) -> House {
    house_at(TestApp::new().await, create, workspaces).await
}

async fn house_at(app: TestApp, create: CreateOauthApp, workspaces: &[&str]) -> House {
    for slug in ["other", "third"] {
        let put = PutWorkspace::default();
        let put = app.service.tenancy().put_workspace(slug, put, Millis(0));
        put.await.unwrap();
    }
    let create = CreateOauthApp {
        name: "Weather <Kit>".to_owned(),
        redirect_uris: vec![CALLBACK.to_owned()],
        scopes: if create.scopes.is_empty() {
            SCOPES.iter().map(|&word| word.to_owned()).collect()
        } else {
            create.scopes
        },
        ..create
    };
    let oauth = app.service.oauth();
    let client = oauth.create_app("acme", create, Millis(0)).await.unwrap();
    let put = PutUser {
        name: None,
        password: Some(PASSWORD.to_owned()),
        workspaces: Some(workspaces.iter().map(|&slug| slug.to_owned()).collect()),
    };
    oauth.put_user(EMAIL, put, Millis(0)).await.unwrap();
    House { app, client }
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    let mut text = Serializer::new(String::new());
    text.extend_pairs(pairs);
    text.finish()
}

/// A browser: one cookie, and what the last page's form carried.
struct Browser<'house> {
    house: &'house House,
    query: String,
    cookie: Option<String>,
    page: String,
}

impl<'house> Browser<'house> {
    fn at(house: &'house House, changes: &[(&str, &str)]) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let mut pairs = vec![
            ("client_id", house.client.client_id.as_str()),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
            ("state", "x y&z"),
        ];
        for (name, value) in changes {
            pairs.retain(|(known, _)| known != name);
            if !value.is_empty() {
                pairs.push((name, value));
            }
        }
        Self {
            house,
            query: encoded(&pairs),
            cookie: None,
            page: String::new(),
        }
    }

    async fn send(&mut self, method: &str, body: Option<String>) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/api/oauth/authorize?{}", self.query));
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", format!("a=b; {cookie}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        let request = request
            .body(body.map_or(Body::empty(), Body::from))
            .unwrap();
        let reply = self.house.app.send(request).await;
        if let Some(set) = reply.headers.get("set-cookie") {
            let set = set.to_str().unwrap();
            assert!(set.contains("HttpOnly; SameSite=Lax"), "{set}");
            self.cookie = set.split(';').next().map(ToOwned::to_owned);
        }
        self.page = reply.body.as_str().unwrap_or_default().to_owned();
        reply
    }

    async fn open(&mut self) -> Reply {
        self.send("GET", None).await
    }

    async fn submit(&mut self, fields: &[(&str, &str)]) -> Reply {
        let token = self.page.split("name=\"form\" value=\"").nth(1);
        let token = token.and_then(|rest| rest.split('"').next()).unwrap_or("");
        let mut pairs = vec![("form", token)];
        pairs.extend_from_slice(fields);
        let body = encoded(&pairs);
        self.send("POST", Some(body)).await
    }

    async fn sign_in(&mut self) {
        self.open().await;
        let fields = [
            ("step", "sign_in"),
            ("email", EMAIL),
            ("password", PASSWORD),
        ];
        let reply = self.submit(&fields).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
        let again = format!("/api/oauth/authorize?{}", self.query);
        assert_eq!(reply.header("location"), again);
        self.open().await;
    }
}

/// The query of a redirect to the app.
fn sent_back(reply: &Reply) -> Vec<(String, String)> {
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{reply:?}");
    let location = reply.header("location");
    assert!(location.starts_with(CALLBACK), "{location}");
    let url = Url::parse(location).unwrap();
    url.query_pairs().into_owned().collect()
}

fn value<'pairs>(pairs: &'pairs [(String, String)], name: &str) -> &'pairs str {
    let found = pairs.iter().find(|(key, _)| key == name);
    found.map_or("", |(_, value)| value)
}

impl House {
    /// A person says yes; the code.
    async fn code(&self, changes: &[(&str, &str)]) -> String {
        let mut browser = Browser::at(self, changes);
        browser.sign_in().await;
        let fields = [("step", "allow"), ("workspace", "acme")];
        let pairs = sent_back(&browser.submit(&fields).await);
        assert_eq!(value(&pairs, "state"), "x y&z");
        assert_eq!(value(&pairs, "from"), "runloom");
        assert_eq!(value(&pairs, "iss"), "http://127.0.0.1:8787");
        value(&pairs, "code").to_owned()
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let mut pairs = vec![
            ("client_id", self.client.client_id.as_str()),
            ("client_secret", self.client.client_secret.as_str()),
        ];
        for (name, value) in fields {
            pairs.retain(|(known, _)| known != name);
            pairs.push((name, value));
        }
        let request = Request::post(format!("/api/oauth/{path}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(encoded(&pairs)));
        self.app.send(request.unwrap()).await
    }

    async fn exchange(&self, code: &str) -> Reply {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        self.post("token", &fields).await
    }

    async fn tokens(&self) -> (String, String) {
        let reply = self.exchange(&self.code(&[]).await).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        (text(&reply, "access_token"), text(&reply, "refresh_token"))
    }

    async fn refresh(&self, token: &str) -> Reply {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.post("token", &fields).await
    }

    async fn get(&self, path: &str, token: &str) -> Reply {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        self.app.send(request.body(Body::empty()).unwrap()).await
    }

    async fn models(&self, token: &str) -> Reply {
        self.get("/api/v1/workspaces/acme/models", token).await
    }
}

fn text(reply: &Reply, field: &str) -> String {
    reply.body[field].as_str().unwrap_or_default().to_owned()
}

fn refused(reply: &Reply, status: u16, error: &str) {
    assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    assert_eq!(reply.body["error"], error, "{reply:?}");
    assert!(reply.body["error_description"].is_string(), "{reply:?}");
    assert_eq!(reply.header("cache-control"), "no-store");
}
