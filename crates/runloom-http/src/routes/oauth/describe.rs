//! What the OpenAPI document says about the OAuth endpoints. Their requests are RFC 6749's, so their forms stand here.

use runloom_protocol::oauth::{Empty, GrantList, Introspection, TokenResponse, UserInfo};
use runloom_protocol::resource;
use serde_json::{Value, json};

use crate::operation::{Credential, ErrorShape, Operation, Parameter, Shape, Tag};

const TAG: Tag = Tag {
    name: "OAuth",
    about: "Users grant apps access to their workspaces.",
};

const HTML: &str = "text/html";

/// Where the consent page sends the browser.
const REDIRECT: &str = "To the app: with `code`, `state` and `iss`, or with `error`, `error_description`, `state` and `iss`.";

pub(super) fn authorize() -> Operation {
    consent("oauth_authorize", "Show the consent page").about(
        "The user signs in, selects a workspace, and allows or denies the request. An unknown app or redirect URI fails \
         without a redirect.",
    )
}

pub(super) fn authorize_form() -> Operation {
    consent(
        "oauth_authorize_answer",
        "Submit a form of the consent page",
    )
    .about("Only forms of the page itself, for the same browser and request, are accepted.")
    .body(Shape::form("ConsentForm", consent_form))
    .errors_as(ErrorShape::Page, &[403, 429])
}

fn consent(id: &str, summary: &str) -> Operation {
    let parameters = [
        Parameter::text("client_id", "The client id of the app.").required(),
        Parameter::text("redirect_uri", "One of the app's redirect URIs, exactly.").required(),
        Parameter::text("response_type", "`code`.").required(),
        Parameter::text(
            "code_challenge",
            "PKCE: the SHA-256 of the verifier in base64url.",
        )
        .required(),
        Parameter::text("code_challenge_method", "`S256`.").required(),
        Parameter::text(
            "scope",
            "The scopes, separated by spaces; default: all scopes of the app.",
        ),
        Parameter::text("state", "Returned to the app unchanged."),
    ];
    Operation::new(TAG, id, summary)
        .parameters(parameters)
        .returns(200, "A page for the user.", Shape::text(HTML))
        .returns(303, REDIRECT, Shape::empty())
        .errors_as(ErrorShape::Page, &[400, 503])
}

pub(super) fn token() -> Operation {
    of_client("oauth_token", "Get tokens")
        .about("Exchanges a code, refreshes an access token, or issues a token for the app itself.")
        .body(Shape::form("TokenForm", token_form))
        .returns(200, "The tokens.", Shape::json::<TokenResponse>())
}

pub(super) fn revoke() -> Operation {
    of_client("oauth_revoke", "Revoke a token")
        .about("An access token alone, a refresh token with its whole grant.")
        .body(Shape::form("OauthTokenForm", one_token_form))
        .returns(
            200,
            "The token is revoked, or was not a token of the app.",
            Shape::json::<Empty>(),
        )
}

pub(super) fn introspect() -> Operation {
    of_client("oauth_introspect", "Read the state of a token")
        .about("Only tokens of the calling app are active.")
        .body(Shape::form("OauthTokenForm", one_token_form))
        .returns(
            200,
            "The state of the token.",
            Shape::json::<Introspection>(),
        )
}

fn of_client(id: &str, summary: &str) -> Operation {
    Operation::new(TAG, id, summary)
        .credential(Credential::Client)
        .errors_as(ErrorShape::Oauth, &[400, 401])
}

pub(super) fn user_info() -> Operation {
    Operation::new(
        TAG,
        "oauth_userinfo",
        "Read the user behind an access token",
    )
    .credential(Credential::Workspace {
        scope: "mantyx.identity:read",
    })
    .returns(
        200,
        "The user and the workspace.",
        Shape::json::<UserInfo>(),
    )
}

pub(super) fn list_grants() -> Operation {
    Operation::new(TAG, "list_grants", "List grants")
        .about("An API key sees the grants of its workspace, an access token those of its app and user.")
        .credential(Credential::Workspace { scope: "" })
        .returns(200, "The grants, newest first.", Shape::json::<GrantList>())
}

pub(super) fn delete_grant() -> Operation {
    Operation::new(TAG, "delete_grant", "Delete a grant")
        .about("Revokes its tokens, too.")
        .target("The id of the grant, `grant_…`.")
        .credential(Credential::Workspace { scope: "" })
        .returns(200, "The grant is deleted.", Shape::json::<resource::Ok>())
}

pub(super) fn metadata() -> Operation {
    Operation::new(
        TAG,
        "oauth_metadata",
        "Read the metadata of the authorization server",
    )
    .returns(
        200,
        "RFC 8414.",
        Shape::named_json("OauthMetadata", metadata_schema),
    )
}

fn metadata_schema() -> Value {
    json!({
        "type": "object",
        "description": "The metadata of an authorization server (RFC 8414).",
        "properties": {
            "issuer": {"type": "string", "description": "The issuer."},
            "authorization_endpoint": {"type": "string", "description": "The consent page."},
            "token_endpoint": {"type": "string", "description": "The token endpoint."},
            "scopes_supported": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The scopes that apps can ask for.",
            },
        },
        "required": ["issuer", "authorization_endpoint", "token_endpoint"],
        "additionalProperties": true,
    })
}

fn consent_form() -> Value {
    let steps = ["sign_in", "sign_out", "workspace", "allow", "deny"];
    json!({
        "type": "object",
        "description": "A form of the consent page. Further fields depend on the step.",
        "properties": {
            "form": {"type": "string", "description": "The token of the form."},
            "step": {"type": "string", "enum": steps, "description": "What the user does."},
        },
        "required": ["form", "step"],
        "additionalProperties": true,
    })
}

fn token_form() -> Value {
    let grants = ["authorization_code", "refresh_token", "client_credentials"];
    json!({
        "type": "object",
        "description": "A token request (RFC 6749).",
        "properties": {
            "grant_type": {"type": "string", "enum": grants, "description": "The kind of grant."},
            "code": {"type": "string", "description": "The authorization code."},
            "redirect_uri": {"type": "string", "description": "The redirect URI of the authorization request."},
            "code_verifier": {"type": "string", "description": "The PKCE verifier."},
            "refresh_token": {"type": "string", "description": "The refresh token."},
            "scope": {"type": "string", "description": "The scopes, separated by spaces."},
            "client_id": {"type": "string", "description": "The client id, unless HTTP Basic has it."},
            "client_secret": {"type": "string", "description": "The client secret, unless HTTP Basic has it."},
        },
        "required": ["grant_type"],
    })
}

fn one_token_form() -> Value {
    json!({
        "type": "object",
        "description": "A token of the calling app.",
        "properties": {
            "token": {"type": "string", "description": "The token."},
            "token_type_hint": {"type": "string", "description": "Ignored."},
            "client_id": {"type": "string", "description": "The client id, unless HTTP Basic has it."},
            "client_secret": {"type": "string", "description": "The client secret, unless HTTP Basic has it."},
        },
        "required": ["token"],
    })
}
