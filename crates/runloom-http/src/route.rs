//! One route: method, path, required credential and handler.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use runloom_protocol::scope::Scope;
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket;

use crate::app::App;

/// The credential that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// No credential.
    Open,
    /// A credential of the workspace in the path, counted in this bucket. An access token needs the scope.
    Workspace(Bucket, Scope),
    /// A credential for published agents at this entry point, counted in this bucket. An access token needs the
    /// scopes.
    Published(EntryPoint, Bucket, &'static [Scope]),
    /// The same, where one of two scopes is enough.
    Either(EntryPoint, Bucket, [Scope; 2]),
    /// The admin token.
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
