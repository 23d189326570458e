//! What the OpenAPI document says about a route beyond method, path and access. It stands beside the row of the route.
//!
//! Only the test that generates the document reads it (`openapi/tests`); in a server it is unused.

mod parameter;
pub(crate) mod shape;

pub(crate) use parameter::Parameter;
pub(crate) use shape::Shape;

/// A group of operations in the document.
#[derive(Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

/// The body of an error response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorShape {
    /// The JSON of every error.
    Json,
    /// The JSON of RFC 6749.
    Oauth,
    /// The JSON of JSON-RPC.
    Rpc,
    /// A page for a browser.
    Page,
}

/// A successful response.
#[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
pub(crate) struct Success {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) shape: Shape,
}

/// The credential of a route that its access does not show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// As the access of the route says.
    OfAccess,
    /// An API key or access token, checked by the handler. An access token may need a scope.
    Workspace { scope: &'static str },
    /// The client id and secret of an OAuth app.
    Client,
}

/// The description of one route. Statuses that every route of its access has, or every route with a body or a query,
/// are added by the generator; the row names the others.
#[cfg_attr(not(test), expect(dead_code, reason = "read by the generator"))]
pub(crate) struct Operation {
    pub(crate) tag: Tag,
    pub(crate) id: String,
    pub(crate) summary: String,
    pub(crate) about: &'static str,
    /// What `{id}` in the path names.
    pub(crate) target: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Shape>,
    pub(crate) successes: Vec<Success>,
    pub(crate) errors: Vec<(u16, ErrorShape)>,
    pub(crate) has_etag: bool,
    pub(crate) credential: Credential,
}

impl Operation {
    /// An operation with its unique id and a summary in the imperative.
    pub(crate) fn new(tag: Tag, id: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            tag,
            id: id.into(),
            summary: summary.into(),
            about: "",
            target: "",
            parameters: Vec::new(),
            body: None,
            successes: Vec::new(),
            errors: Vec::new(),
            has_etag: false,
            credential: Credential::OfAccess,
        }
    }

    /// For a page that is not part of the API.
    pub(crate) fn undocumented() -> Self {
        let tag = Tag {
            name: "",
            about: "",
        };
        Self::new(tag, "", "")
    }

    /// What the summary does not say.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// What `{id}` in the path names.
    pub(crate) fn target(mut self, target: &'static str) -> Self {
        self.target = target;
        self
    }

    /// Parameters in the query or the headers.
    pub(crate) fn parameters(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// The request body.
    pub(crate) fn body(mut self, shape: Shape) -> Self {
        self.body = Some(shape);
        self
    }

    /// `Idempotency-Key`, and the status for a key that was used with another body.
    pub(crate) fn idempotent(self) -> Self {
        let key = Parameter::header(
            "Idempotency-Key",
            "The same key with the same body returns the first response again; with another body the request fails.",
        );
        self.parameters([key.chars(1, 255)]).errors(&[409])
    }

    /// A successful response. The same status may have several content types.
    pub(crate) fn returns(mut self, status: u16, about: &'static str, shape: Shape) -> Self {
        self.successes.push(Success {
            status,
            about,
            shape,
        });
        self
    }

    /// Error statuses beyond those that the generator adds.
    pub(crate) fn errors(self, statuses: &[u16]) -> Self {
        self.errors_as(ErrorShape::Json, statuses)
    }

    /// Error statuses with another body.
    pub(crate) fn errors_as(mut self, shape: ErrorShape, statuses: &[u16]) -> Self {
        self.errors
            .extend(statuses.iter().map(|status| (*status, shape)));
        self
    }

    /// Successful responses carry an `ETag`.
    pub(crate) fn etag(mut self) -> Self {
        self.has_etag = true;
        self
    }

    /// The credential that the handler checks itself.
    pub(crate) fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }
}
