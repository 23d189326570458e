//! Agents, tools, plugins, secrets, external agents, providers and toolsets: listed, read, put and deleted alike.
//!
//! Every answer with one document carries its `ETag`. `If-Match` guards a change against changes of others,
//! `If-None-Match: *` against what is there already.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use runloom_ports::store::{DocumentKind, Expect};
use runloom_protocol::admin::Rotation;
use runloom_protocol::definition::{
    AgentDefinition, ExternalAgentDefinition, PluginManifest, ProviderDefinition, PutSecret,
    ToolDefinition, ToolsetDefinition,
};
use runloom_protocol::error::Issue;
use runloom_protocol::resource::{
    self, AgentDocuments, ExternalAgentDocuments, InstalledPlugin, InstalledToolset,
    PluginDocuments, ProviderDocuments, SecretDocuments, StoredDocument, StoredSecret,
    ToolDocuments, ToolsetDocuments, ToolsetToolList,
};
use runloom_service::error::Error;
use serde::Serialize;
use serde_json::Value;

use super::TAG;
use crate::app::App;
use crate::error::Answer;
use crate::extract::{Checkable, Checked, QueryPairs, Target};
use crate::operation::{Operation, Parameter, Shape};
use crate::route::Access::Admin;
use crate::route::Route;

/// One kind of document: its words, and the schemas of its bodies.
struct Kind {
    kind: DocumentKind,
    /// In paths.
    path: &'static str,
    /// In lists.
    list: &'static str,
    /// In ids and summaries of operations.
    one: &'static str,
    request: fn() -> Shape,
    response: fn() -> Shape,
    responses: fn() -> Shape,
}

const KINDS: [Kind; 7] = [
    Kind {
        kind: DocumentKind::Agent,
        path: "agents",
        list: "agents",
        one: "agent",
        request: Shape::json::<AgentDefinition>,
        response: Shape::json::<StoredDocument<AgentDefinition>>,
        responses: Shape::json::<AgentDocuments>,
    },
    Kind {
        kind: DocumentKind::Tool,
        path: "tools",
        list: "tools",
        one: "tool",
        request: Shape::json::<ToolDefinition>,
        response: Shape::json::<StoredDocument<ToolDefinition>>,
        responses: Shape::json::<ToolDocuments>,
    },
    Kind {
        kind: DocumentKind::Plugin,
        path: "plugins",
        list: "plugins",
        one: "plugin",
        request: Shape::json::<PluginManifest>,
        response: Shape::json::<StoredDocument<PluginManifest>>,
        responses: Shape::json::<PluginDocuments>,
    },
    Kind {
        kind: DocumentKind::Secret,
        path: "secrets",
        list: "secrets",
        one: "secret",
        request: Shape::json::<PutSecret>,
        response: Shape::json::<StoredSecret>,
        responses: Shape::json::<SecretDocuments>,
    },
    Kind {
        kind: DocumentKind::ExternalAgent,
        path: "external-agents",
        list: "externalAgents",
        one: "external agent",
        request: Shape::json::<ExternalAgentDefinition>,
        response: Shape::json::<StoredDocument<ToolDefinition>>,
        responses: Shape::json::<ExternalAgentDocuments>,
    },
    Kind {
        kind: DocumentKind::Provider,
        path: "providers",
        list: "providers",
        one: "provider",
        request: Shape::json::<ProviderDefinition>,
        response: Shape::json::<StoredDocument<ProviderDefinition>>,
        responses: Shape::json::<ProviderDocuments>,
    },
    Kind {
        kind: DocumentKind::Toolset,
        path: "toolsets",
        list: "toolsets",
        one: "toolset",
        request: Shape::json::<ToolsetDefinition>,
        response: Shape::json::<StoredDocument<ToolsetDefinition>>,
        responses: Shape::json::<ToolsetDocuments>,
    },
];

pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![Route::post(
        "/api/admin/v1/secrets/rotate",
        Admin,
        rotate_secrets,
        Operation::new(TAG, "rotate_secrets", "Seal every stored secret with the current master key")
            .about(
                "After a start with a new master key and the old one in `RUNLOOM_MASTER_KEY_PREVIOUS`. May be repeated.",
            )
            .returns(200, "What was sealed.", Shape::json::<Rotation>()),
    )];
    routes.push(Route::get(
        "/api/admin/v1/workspaces/{slug}/toolsets/{id}/tools",
        Admin,
        list_toolset_tools,
        Operation::new(TAG, "list_toolset_tools", "List the tools of a toolset")
            .about("Connects to the MCP server of the toolset.")
            .target("The slug or the id of the toolset.")
            .returns(
                200,
                "The tools, in the order of the MCP server.",
                Shape::json::<ToolsetToolList>(),
            ),
    ));
    for words in KINDS {
        let Kind { kind, list, .. } = words;
        let all = format!("/api/admin/v1/workspaces/{{slug}}/{}", words.path);
        let one = format!("{all}/{{id}}");
        routes.extend([
            Route::get(
                all,
                Admin,
                move |app, target| list_documents(app, target, kind, list),
                words.list_operation(),
            ),
            Route::get(
                one.as_str(),
                Admin,
                move |app, target, query| get_document(app, target, query, kind),
                words.get_operation(),
            ),
            Route::put(
                one.as_str(),
                Admin,
                move |app, target, headers, body| put_document(app, target, headers, body, kind),
                words.put_operation(),
            ),
            Route::delete(
                one,
                Admin,
                move |app, target, headers| delete_document(app, target, headers, kind),
                words.delete_operation(),
            ),
        ]);
    }
    routes
}

impl Kind {
    fn list_operation(&self) -> Operation {
        let id = format!("admin_list_{}", self.path.replace('-', "_"));
        Operation::new(TAG, id, format!("List the {}s of a workspace", self.one)).returns(
            200,
            "The documents, by slug.",
            (self.responses)(),
        )
    }

    fn get_operation(&self) -> Operation {
        let operation = self.on_one("get", "Read");
        let operation = match self.kind {
            DocumentKind::Agent => operation.parameters([Parameter::integer(
                "version",
                (1, u64::MAX),
                "An earlier version; the last 100 are kept.",
            )]),
            _ => operation.errors(&[400]),
        };
        operation.etag().returns(
            200,
            "The document, with literal credentials as `***`.",
            (self.response)(),
        )
    }

    fn put_operation(&self) -> Operation {
        self.on_one("put", "Create or replace")
            .parameters([if_match(), if_none_match()])
            .body((self.request)())
            .etag()
            .errors(&[409, 412])
            .returns(201, "The document was created.", (self.response)())
            .returns(
                200,
                "The document was replaced, or is unchanged.",
                (self.response)(),
            )
    }

    fn delete_operation(&self) -> Operation {
        self.on_one("delete", "Delete")
            .parameters([if_match()])
            .errors(&[412])
            .returns(
                200,
                "The document is deleted.",
                Shape::json::<resource::Ok>(),
            )
    }

    fn on_one(&self, verb: &str, imperative: &str) -> Operation {
        let article = if self.one.starts_with(['a', 'e']) {
            "an"
        } else {
            "a"
        };
        let id = format!("admin_{verb}_{}", self.one.replace(' ', "_"));
        Operation::new(TAG, id, format!("{imperative} {article} {}", self.one))
            .target("The slug or the id of the document.")
    }
}

pub(super) fn if_match() -> Parameter {
    let about = "Change the document only if it has this `ETag`, or with `*` only if it exists. Fails with 412 otherwise.";
    Parameter::header("If-Match", about)
}

pub(super) fn if_none_match() -> Parameter {
    let about = "`*`: only if the document does not exist. Fails with 412 otherwise.";
    Parameter::header("If-None-Match", about)
}

/// A definition; what it must be depends on its kind.
pub(super) struct Definition(Value);

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

pub(super) async fn get_document(
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

pub(super) async fn put_document(
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

pub(super) async fn delete_document(
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
