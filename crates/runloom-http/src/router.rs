//! How a request travels: edge (id, span, deadline, panics) → route → guard (credential, rate) → handler.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;
use runloom_ports::shutdown::Shutdown;
use runloom_protocol::scope::{Scope, ScopeSet};
use runloom_service::Service;
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket;

use crate::app::{App, Settings};
use crate::error::Refusal;
use crate::guard::Entry;
use crate::route::{Access, Route};
use crate::{edge, guard, routes};

/// The whole API, and the dashboard. Streams end with their phase of the shutdown; a draining server is not ready.
pub fn router(service: Arc<Service>, settings: Settings, shutdown: Shutdown) -> Router {
    let mut served = routes::all();
    if settings.dashboard {
        served.extend(routes::pages());
    }
    assemble(App::new(service, settings, shutdown), served)
}

/// What a worker serves on its listener: probes, and metrics with the admin token. Everything else is for processes with the API.
pub fn probe_router(service: Arc<Service>, settings: Settings, shutdown: Shutdown) -> Router {
    assemble(App::new(service, settings, shutdown), routes::probes())
}

/// What is served to those who watch the process, on a listener of its own: metrics without a token, and the probes.
pub fn watch_router(service: Arc<Service>, settings: Settings, shutdown: Shutdown) -> Router {
    assemble(App::new(service, settings, shutdown), routes::watched())
}

/// Method and path of every route of the API, for documents and their tests.
#[must_use]
pub fn route_table() -> Vec<(&'static str, String)> {
    let routes = routes::all().into_iter();
    routes.map(|route| (route.method, route.path)).collect()
}

/// Method, path and scopes of every route that a credential of a workspace opens, for documents and their tests.
#[must_use]
pub fn scope_table() -> Vec<(&'static str, String, String)> {
    let scopes = |route: Route| {
        let words: Vec<&str> = match route.access {
            Access::Workspace(_, scope) => vec![scope.as_str()],
            Access::Hosted(_, _, scopes) => scopes.iter().map(|scope| scope.as_str()).collect(),
            Access::Either(_, _, [one, other]) => vec![one.as_str(), "or", other.as_str()],
            Access::Open | Access::Admin => return None,
        };
        Some((route.method, route.path, words.join(" ")))
    };
    routes::all().into_iter().filter_map(scopes).collect()
}

/// Puts the guards around the routes and the edge around everything.
pub(crate) fn assemble(app: App, routes: Vec<Route>) -> Router {
    let router = routes
        .into_iter()
        .fold(Router::new(), |router, route| {
            let endpoint = match route.access {
                Access::Open => route.endpoint,
                Access::Workspace(bucket, scope) => {
                    let entry = entry(EntryPoint::DeveloperApi, &[scope], None);
                    guarded(&app, route.endpoint, entry, bucket)
                }
                Access::Hosted(door, bucket, scopes) => {
                    guarded(&app, route.endpoint, entry(door, scopes, None), bucket)
                }
                Access::Either(door, bucket, [one, other]) => {
                    let entry = entry(door, &[one], Some(other));
                    guarded(&app, route.endpoint, entry, bucket)
                }
                Access::Admin => route
                    .endpoint
                    .route_layer(from_fn_with_state(app.clone(), guard::admin)),
            };
            router.route(&route.path, endpoint)
        })
        .fallback(|| async { Refusal::UnknownRoute })
        .method_not_allowed_fallback(|| async { Refusal::WrongMethod });
    router
        .layer(from_fn_with_state(app.clone(), edge::around))
        .with_state(app)
}

fn entry(door: EntryPoint, needed: &[Scope], otherwise: Option<Scope>) -> Entry {
    Entry {
        door,
        needed: needed.iter().copied().collect(),
        otherwise: otherwise.map(|scope| ScopeSet::from_iter([scope])),
    }
}

fn guarded(
    app: &App,
    endpoint: MethodRouter<App>,
    entry: Entry,
    bucket: Bucket,
) -> MethodRouter<App> {
    let kept = (app.clone(), entry, bucket);
    endpoint.route_layer(from_fn_with_state(kept, guard::workspace))
}
