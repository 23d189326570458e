//! One route: method, path, required credential, handler, and what the OpenAPI document says about it.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use runloom_protocol::scope::Scope;
use runloom_service::entry_point::EntryPoint;
use runloom_service::rate::Bucket;

use crate::app::App;
use crate::operation::Operation;

/// The credential that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// No credential.
    Open,
    /// A credential of the workspace in the path, counted in this bucket. An access token needs the scope.
    Workspace(Bucket, Scope),
    /// A credential for this entry point, counted in this bucket. An access token needs all the
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
    /// What the OpenAPI document says about it.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
    pub(crate) operation: Operation,
}

impl Route {
    /// `GET`, and with it `HEAD`.
    pub(crate) fn get<H, T>(
        path: impl Into<String>,
        access: Access,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(("get", MethodFilter::GET), path, access, handler, operation)
    }

    /// `GET` of a page for browsers, which is not part of the API.
    pub(crate) fn page<H, T>(path: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::get(path, Access::Open, handler, Operation::undocumented())
    }

    /// `POST`.
    pub(crate) fn post<H, T>(
        path: impl Into<String>,
        access: Access,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(
            ("post", MethodFilter::POST),
            path,
            access,
            handler,
            operation,
        )
    }

    /// `PUT`.
    pub(crate) fn put<H, T>(
        path: impl Into<String>,
        access: Access,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(("put", MethodFilter::PUT), path, access, handler, operation)
    }

    /// `DELETE`.
    pub(crate) fn delete<H, T>(
        path: impl Into<String>,
        access: Access,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::on(
            ("delete", MethodFilter::DELETE),
            path,
            access,
            handler,
            operation,
        )
    }

    fn on<H, T>(
        (method, filter): (&'static str, MethodFilter),
        path: impl Into<String>,
        access: Access,
        handler: H,
        operation: Operation,
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
            operation,
        }
    }

    /// The scopes that an access token needs, separated by spaces; `or` between two of which one is enough.
    pub(crate) fn scopes(&self) -> Option<String> {
        let words: Vec<&str> = match self.access {
            Access::Workspace(_, scope) => vec![scope.as_str()],
            Access::Published(_, _, scopes) => scopes.iter().map(|scope| scope.as_str()).collect(),
            Access::Either(_, _, [one, other]) => vec![one.as_str(), "or", other.as_str()],
            Access::Open | Access::Admin => return None,
        };
        Some(words.join(" "))
    }
}
