//! One route: method, path, required credential and handler.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use runloom_protocol::scope::Scope;
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket;

use crate::app::App;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody.
    Open,
    /// A credential of the workspace in the path; counted in this bucket. An access token needs this scope.
    Workspace(Bucket, Scope),
    /// A credential for one of the doors at which agents are offered to others; counted in this bucket. An access token needs these
    /// scopes.
    Hosted(EntryPoint, Bucket, &'static [Scope]),
    /// The same, where either of two scopes is enough.
    Either(EntryPoint, Bucket, [Scope; 2]),
    /// The administrator.
    Admin,
}

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) access: Access,
    pub(crate) endpoint: MethodRouter<App>,
}

impl Route {
    /// `GET`, and with it `HEAD`.
    pub(crate) fn get<H, T>(path: impl Into<String>, access: Access, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(("get", MethodFilter::GET), path, access, handler)
    }

    /// `POST`.
    pub(crate) fn post<H, T>(path: impl Into<String>, access: Access, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(("post", MethodFilter::POST), path, access, handler)
    }

    /// `PUT`.
    pub(crate) fn put<H, T>(path: impl Into<String>, access: Access, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(("put", MethodFilter::PUT), path, access, handler)
    }

    /// `DELETE`.
    pub(crate) fn delete<H, T>(path: impl Into<String>, access: Access, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(("delete", MethodFilter::DELETE), path, access, handler)
    }

    fn on<H, T>(
        (method, filter): (&'static str, MethodFilter),
        path: impl Into<String>,
        access: Access,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self {
            method,
            path: path.into(),
            access,
            endpoint: on(filter, handler),
        }
    }
}
