//! Form bodies of browsers and OAuth clients.

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use url::form_urlencoded;

use super::body::read_at_most;
use crate::app::App;
use crate::error::{Answer, Refusal};

/// Maximum bytes of a form.
const FORM_MAX_BYTES: usize = 128 * 1024;

/// The fields in order, including repeated ones.
#[derive(Default)]
pub(crate) struct Form(pub(crate) Vec<(String, String)>);

impl FromRequest<App> for Form {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or("");
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let message = "Send a form with `Content-Type: application/x-www-form-urlencoded`.";
            return Err(Refusal::MediaType {
                message: message.to_owned(),
            });
        }
        let bytes = read_at_most(body, FORM_MAX_BYTES, &app.settings).await?;
        Ok(Self(form_urlencoded::parse(&bytes).into_owned().collect()))
    }
}

impl Form {
    /// The first value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).collect()
    }
}
