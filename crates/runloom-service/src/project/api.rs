//! The loopback API: what a child process reaches with its credential.

use runloom_ports::clock::rfc3339;
use runloom_ports::store::Millis;
use runloom_project::call::{INPUT_MAX_BYTES, invalid_input, unknown};
use runloom_project::{Failure, SKILLS, code};
use serde_json::{Value, json};

use super::ProjectService;
use super::credential::{Admitted, Refused};

/// A response of the loopback API.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiReply {
    /// What kind of response it is.
    pub status: ApiStatus,
    /// JSON.
    pub body: Value,
}

/// Kinds of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiStatus {
    /// The action was run, or failed in its domain.
    Ok,
    /// The input does not fit the method's type.
    InvalidInput,
    /// The credential is not valid.
    InvalidCredential,
    /// The action is not in the allow-list.
    NotAllowed,
    /// The router does not have the action.
    UnknownAction,
    /// The body is too large.
    TooLarge,
    /// The credential was used too often.
    TooMany,
}

impl ApiReply {
    fn failure(status: ApiStatus, failure: &Failure) -> Self {
        Self {
            status,
            body: failure.reply(),
        }
    }
}

impl From<Refused> for ApiReply {
    fn from(refused: Refused) -> Self {
        match refused {
            // The same for every reason.
            Refused::Invalid => Self {
                status: ApiStatus::InvalidCredential,
                body: json!({"ok": false, "error": {
                    "code": code::CREDENTIAL_INVALID, "message": "The credential is not valid."}}),
            },
            Refused::TooMany => {
                let message = "This credential has made 100 requests; a call may make no more.";
                let failure = Failure::new(code::LIMIT_EXCEEDED, message);
                Self::failure(ApiStatus::TooMany, &failure)
            }
        }
    }
}

impl ProjectService {
    /// `GET /whoami`.
    pub async fn whoami(&self, credential: Option<&str>) -> ApiReply {
        let Admitted { identity, expires } = match self.admit(credential).await {
            Ok(admitted) => admitted,
            Err(refused) => return refused.into(),
        };
        let project = &identity.project;
        ApiReply {
            status: ApiStatus::Ok,
            body: json!({
                "workspace": &*identity.workspace,
                "owner": project.owner.id,
                "email": project.owner.email,
                "runId": identity.run.as_str(),
                "sessionId": identity.session.as_ref().map(|session| session.as_str()),
                "toolCallId": identity.call,
                "via": project.via,
                "allow": project.allow,
                "expiresAt": rfc3339(Millis(expires.saturating_mul(1000))),
            }),
        }
    }

    /// `POST /{module}/{method}`: runs a shipped action.
    pub async fn act(
        &self,
        credential: Option<&str>,
        module: &str,
        method: &str,
        body: &[u8],
    ) -> ApiReply {
        let Admitted { identity, .. } = match self.admit(credential).await {
            Ok(admitted) => admitted,
            Err(refused) => return refused.into(),
        };
        let project = &identity.project;
        let found = runloom_project::shipped::module(module);
        let known = found.and_then(|found| found.method(method));
        let known = known.filter(|_| project.has(module, method) && module != SKILLS);
        let Some(known) = known else {
            let failure = unknown(project).of(module, method);
            return ApiReply::failure(ApiStatus::UnknownAction, &failure);
        };
        if !project.allows(module, method) {
            let message = "This run may not execute this action.";
            let failure = Failure::new(code::ACTION_NOT_ALLOWED, message).of(module, method);
            return ApiReply::failure(ApiStatus::NotAllowed, &failure);
        }
        if body.len() > INPUT_MAX_BYTES {
            let message = "The input has more than 65536 bytes.";
            let failure = Failure::new(code::INVALID_ACTION_INPUT, message).of(module, method);
            return ApiReply::failure(ApiStatus::TooLarge, &failure);
        }
        let input: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let issues = known.input.issues(&input);
        if !issues.is_empty() {
            let failure = invalid_input(known.input.rendered_for(&input), &issues);
            let failure = failure.of(module, method);
            return ApiReply::failure(ApiStatus::InvalidInput, &failure);
        }
        let body = match self
            .run_action(&identity, known, (module, method), &input)
            .await
        {
            Ok(body) => body,
            Err(failure) => failure.of(module, method).reply(),
        };
        ApiReply {
            status: ApiStatus::Ok,
            body,
        }
    }
}
