//! Path parameters.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::app::App;
use crate::error::{Answer, Refusal};

/// The workspace and the resource that a path names.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// `{slug}`; empty when the route has none.
    pub(crate) slug: String,
    /// `{id}`; empty when the route has none.
    pub(crate) id: String,
}

impl FromRequestParts<App> for Target {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Answer<Self> {
        let params = RawPathParams::from_request_parts(parts, &()).await;
        // A path that is not UTF-8 matches nothing.
        let params = params.map_err(|_| Refusal::UnknownRoute)?;
        let mut target = Self::default();
        for (name, value) in &params {
            match name {
                "slug" => value.clone_into(&mut target.slug),
                "id" => value.clone_into(&mut target.id),
                _ => {}
            }
        }
        Ok(target)
    }
}
