//! What this authorization server can do, for programs (RFC 8414).

use axum::Json;
use axum::extract::State;
use runloom_protocol::scope::Scope;
use serde_json::{Value, json};

use crate::app::App;

pub(super) async fn metadata(State(app): State<App>) -> Json<Value> {
    let issuer = &app.settings.issuer;
    let at = |path: &str| format!("{issuer}/api/oauth/{path}");
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let methods = ["client_secret_basic", "client_secret_post"];
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": at("authorize"),
        "token_endpoint": at("token"),
        "revocation_endpoint": at("revoke"),
        "introspection_endpoint": at("introspect"),
        "userinfo_endpoint": at("userinfo"),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "introspection_endpoint_auth_methods_supported": methods,
        "authorization_response_iss_parameter_supported": true,
    }))
}
