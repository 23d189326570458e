//! Agents, tools, plugins, secrets, external agents, providers and toolsets: listed, read, put and deleted alike.
//!
//! Every answer with one document carries its `ETag`. `If-Match` guards a change against changes of others, `If-None-Match: *`
//! against what is there already.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use runloom_ports::store::{DocumentKind, Expect};
use runloom_protocol::error::Issue;
use runloom_protocol::resource::{
    self, InstalledPlugin, InstalledToolset, StoredDocument, ToolsetToolList,
};
use runloom_service::error::Error;
use runloom_service::registry::Rotation;
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checkable, Checked, QueryPairs, Target};
use crate::route::Access::Admin;
use crate::route::Route;

/// Kind, its word in paths, its word in lists.
const KINDS: [(DocumentKind, &str, &str); 7] = [
    (DocumentKind::Agent, "agents", "agents"),
    (DocumentKind::Tool, "tools", "tools"),
    (DocumentKind::Plugin, "plugins", "plugins"),
    (DocumentKind::Secret, "secrets", "secrets"),
    (
        DocumentKind::ExternalAgent,
        "external-agents",
        "externalAgents",
    ),
    (DocumentKind::Provider, "providers", "providers"),
    (DocumentKind::Toolset, "toolsets", "toolsets"),
];

pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![Route::post(
        "/api/admin/v1/secrets/rotate",
        Admin,
        rotate_secrets,
    )];
    routes.push(Route::get(
        "/api/admin/v1/workspaces/{slug}/toolsets/{id}/tools",
        Admin,
        list_toolset_tools,
    ));
    for (kind, word, list) in KINDS {
        let all = format!("/api/admin/v1/workspaces/{{slug}}/{word}");
        let one = format!("{all}/{{id}}");
        routes.extend([
            Route::get(all, Admin, move |app, target| {
                list_documents(app, target, kind, list)
            }),
            Route::get(one.as_str(), Admin, move |app, target, query| {
                get_document(app, target, query, kind)
            }),
            Route::put(one.as_str(), Admin, move |app, target, headers, body| {
                put_document(app, target, headers, body, kind)
            }),
            Route::delete(one, Admin, move |app, target, headers| {
                delete_document(app, target, headers, kind)
            }),
        ]);
    }
    routes
}

/// A definition; what it must be depends on its kind.
struct Definition(Value);

impl Checkable for Definition {
    const OPERATION: &'static str = "put_document";

    fn check(body: &Value) -> Result<Self, Vec<Issue>> {
        Ok(Self(body.clone()))
    }
}

/// What a workspace has without keeping it.
#[derive(Serialize)]
#[serde(untagged)]
enum Installed {
    Plugins(Vec<InstalledPlugin>),
    Toolsets(Vec<InstalledToolset>),
}

/// The documents under their word; beside plugins and toolsets those that the workspace has without keeping them.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    documents: BTreeMap<&'static str, Vec<StoredDocument>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<Installed>,
}

async fn list_documents(
    State(app): State<App>,
    target: Target,
    kind: DocumentKind,
    list: &'static str,
) -> Answer<Json<Listed>> {
    let documents = app.service.registry().list(&target.slug, kind).await?;
    let installed = match kind {
        DocumentKind::Plugin => {
            let plugins = app.service.installed_plugins(&target.slug).await?;
            Some(Installed::Plugins(plugins))
        }
        DocumentKind::Toolset => {
            let toolsets = app.service.registry().installed_toolsets(&target.slug);
            Some(Installed::Toolsets(toolsets))
        }
        _ => None,
    };
    Ok(Json(Listed {
        documents: BTreeMap::from([(list, documents)]),
        installed,
    }))
}

async fn list_toolset_tools(
    State(app): State<App>,
    target: Target,
) -> Answer<Json<ToolsetToolList>> {
    let tools = app.service.toolset_tools(&target.slug, &target.id).await?;
    Ok(Json(ToolsetToolList { tools }))
}

async fn get_document(
    State(app): State<App>,
    target: Target,
    query: QueryPairs,
    kind: DocumentKind,
) -> Answer<Response> {
    let version = query.integer("version", (1, i64::MAX as u64))?;
    let found = app
        .service
        .registry()
        .get(&target.slug, kind, &target.id, version);
    Ok(shown(StatusCode::OK, found.await?))
}

async fn put_document(
    State(app): State<App>,
    target: Target,
    headers: HeaderMap,
    body: Checked<Definition>,
    kind: DocumentKind,
) -> Answer<Response> {
    let expect = expectation(&headers)?;
    let registry = app.service.registry();
    let Definition(body) = body.request;
    let put = registry
        .put(&target.slug, kind, &target.id, &body, expect)
        .await?;
    let status = if put.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(shown(status, put.document))
}

async fn delete_document(
    State(app): State<App>,
    target: Target,
    headers: HeaderMap,
    kind: DocumentKind,
) -> Answer<Json<resource::Ok>> {
    let expect = expectation(&headers)?;
    let registry = app.service.registry();
    registry
        .delete(&target.slug, kind, &target.id, expect)
        .await?;
    Ok(Json(resource::Ok::default()))
}

async fn rotate_secrets(State(app): State<App>) -> Answer<Json<Rotation>> {
    Ok(Json(app.service.registry().rotate().await?))
}

fn shown(status: StatusCode, document: StoredDocument) -> Response {
    let tag = format!("\"{}.{}\"", document.id, document.version);
    (status, [(ETAG, tag)], Json(document)).into_response()
}

/// What the conditional headers ask for.
fn expectation(headers: &HeaderMap) -> Answer<Expect> {
    let only = |name: &HeaderName| -> Answer<Option<&str>> {
        let Some(value) = headers.get(name) else {
            return Ok(None);
        };
        let text = value.to_str().map(str::trim);
        let text = text.map_err(|_| Error::invalid(name.as_str(), "must be plain ASCII"))?;
        Ok(Some(text))
    };
    match (only(&IF_MATCH)?, only(&IF_NONE_MATCH)?) {
        (None, None) => Ok(Expect::Anything),
        (Some("*"), None) => Ok(Expect::Present),
        (None, Some("*")) => Ok(Expect::Absent),
        (Some(tag), None) => exactly(tag).ok_or_else(|| {
            let message = "must be `*`, or the one ETag that an earlier answer had";
            Error::invalid("If-Match", message).into()
        }),
        (None, Some(_)) => Err(Error::invalid("If-None-Match", "must be `*`").into()),
        (Some(_), Some(_)) => {
            let message = "cannot be sent together with If-None-Match";
            Err(Error::invalid("If-Match", message).into())
        }
    }
}

/// One ETag. One that is not of ours is as good as one of a document that has changed: no document has version 0.
fn exactly(tag: &str) -> Option<Expect> {
    let strong = tag.strip_prefix("W/").unwrap_or(tag);
    let text = strong.strip_prefix('"')?.strip_suffix('"')?;
    if text.contains('"') {
        return None;
    }
    let ours = text
        .rsplit_once('.')
        .and_then(|(id, version)| Some((id, version.parse().ok()?)))
        // A weak ETag never matches, RFC 9110 says.
        .filter(|_| strong == tag);
    let (id, version) = ours.unwrap_or((text, 0));
    Some(Expect::Exactly {
        id: id.to_owned(),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn asked(pairs: &[(&'static str, &'static str)]) -> Option<Expect> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        expectation(&pairs.iter().map(pair).collect()).ok()
    }

    #[test]
    fn reads_conditional_headers() {
        assert_eq!(asked(&[]), Some(Expect::Anything));
        assert_eq!(asked(&[("if-match", "*")]), Some(Expect::Present));
        assert_eq!(asked(&[("if-none-match", "*")]), Some(Expect::Absent));
        let exactly = Expect::Exactly {
            id: "agent_1".to_owned(),
            version: 7,
        };
        assert_eq!(asked(&[("if-match", "\"agent_1.7\"")]), Some(exactly));
        for other in ["\"7\"", "\"\"", "W/\"agent_1.7\"", "\"a.b\""] {
            let asked = asked(&[("if-match", other)]);
            assert!(
                matches!(asked, Some(Expect::Exactly { version: 0, .. })),
                "{other}: {asked:?}"
            );
        }
        for bad in ["7", "\"7", "\"a.1\", \"b.1\""] {
            assert_eq!(asked(&[("if-match", bad)]), None, "{bad}");
        }
        assert_eq!(asked(&[("if-none-match", "\"a.1\"")]), None);
        assert_eq!(asked(&[("if-match", "*"), ("if-none-match", "*")]), None);
    }
}
