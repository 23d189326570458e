//! The path of a request: request layer (id, span, deadline, panics), route, guard (credential, rate limit), handler.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;
use runloom_ports::shutdown::Shutdown;
use runloom_protocol::scope::{Scope, ScopeSet};
use runloom_service::Services;
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket;

use crate::app::{App, Settings};
use crate::error::Refusal;
use crate::guard::RequiredAccess;
use crate::route::{Access, Route};
use crate::{guard, request_layer, routes};

/// The whole API, and the dashboard. Streams end with their phase of the shutdown; a draining server is not ready.
pub fn router(service: Arc<Services>, settings: Settings, shutdown: Shutdown) -> Router {
    let mut served = routes::all();
    if settings.dashboard {
        served.extend(routes::pages());
    }
    assemble(App::new(service, settings, shutdown), served)
}

/// The routes of a worker: probes, and metrics with the admin token.
pub fn probe_router(service: Arc<Services>, settings: Settings, shutdown: Shutdown) -> Router {
    assemble(App::new(service, settings, shutdown), routes::probes())
}

/// The routes of the metrics listener: metrics without a token, and probes.
pub fn watch_router(service: Arc<Services>, settings: Settings, shutdown: Shutdown) -> Router {
    assemble(App::new(service, settings, shutdown), routes::watched())
}

/// The loopback API of the project tool, on a listener of its own.
pub fn project_router(service: Arc<Services>, settings: Settings, shutdown: Shutdown) -> Router {
    assemble(App::new(service, settings, shutdown), routes::loopback())
}

/// Method and path of every route of the API, for documents and their tests.
#[must_use]
pub fn route_table() -> Vec<(&'static str, String)> {
    let routes = routes::all().into_iter();
    routes.map(|route| (route.method, route.path)).collect()
}

/// Method, path and scopes of every route that takes a credential of a workspace, for documents and their tests.
#[must_use]
pub fn scope_table() -> Vec<(&'static str, String, String)> {
    let scopes = |route: Route| {
        let scopes = route.scopes()?;
        Some((route.method, route.path, scopes))
    };
    routes::all().into_iter().filter_map(scopes).collect()
}

/// Adds the guards to the routes and the request layer to the whole router.
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
                Access::Published(entry_point, bucket, scopes) => guarded(
                    &app,
                    route.endpoint,
                    entry(entry_point, scopes, None),
                    bucket,
                ),
                Access::Either(entry_point, bucket, [one, other]) => {
                    let entry = entry(entry_point, &[one], Some(other));
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
        .layer(from_fn_with_state(app.clone(), request_layer::handle))
        .with_state(app)
}

fn entry(entry_point: EntryPoint, needed: &[Scope], otherwise: Option<Scope>) -> RequiredAccess {
    RequiredAccess {
        entry_point,
        needed: needed.iter().copied().collect(),
        otherwise: otherwise.map(|scope| ScopeSet::from_iter([scope])),
    }
}

fn guarded(
    app: &App,
    endpoint: MethodRouter<App>,
    entry: RequiredAccess,
    bucket: Bucket,
) -> MethodRouter<App> {
    let kept = (app.clone(), entry, bucket);
    endpoint.route_layer(from_fn_with_state(kept, guard::workspace))
}
