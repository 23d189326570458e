//! Stateless login session of the consent page: a signed cookie.

use std::time::Duration;

use runloom_protocol::id::UserId;
use subtle::ConstantTimeEq;

use super::{OAuthService, after};
use crate::auth::random_letters;
use crate::error::Result;
use crate::vault::{hex, unhex};
use runloom_ports::store::{Millis, UserRow};

/// Lifetime of a login session.
pub const LOGIN_SESSION_LIFETIME: Duration = Duration::from_secs(3600);

/// Longest cookie that is looked at.
const COOKIE_MAX_CHARS: usize = 512;

const SIGNED: &str = "oauth seat 1";
const FORM: &str = "oauth form 1";

/// The login session of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSession {
    nonce: String,
    /// The user, and when their password was set: a new password ends every login session.
    person: Option<(UserId, Millis)>,
    since: Millis,
}

impl LoginSession {
    /// Whether a user is signed in.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.person.is_some()
    }

    fn text(&self) -> String {
        let (person, password_at) = match &self.person {
            Some((id, at)) => (id.as_str(), at.0),
            None => ("-", 0),
        };
        format!("{}.{person}.{password_at}.{}", self.nonce, self.since.0)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || parts.next();
        let (nonce, person, password_at) = (next()?, next()?, next()?.parse().ok()?);
        let since = Millis(next()?.parse().ok()?);
        let person = UserId::parse(person).map(|id| (id, Millis(password_at)));
        Some(Self {
            nonce: nonce.to_owned(),
            person,
            since,
        })
    }
}

impl OAuthService {
    /// A new login session, with or without a user, and its cookie.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn new_login_session(
        &self,
        person: Option<&UserRow>,
        now: Millis,
    ) -> Result<(LoginSession, String)> {
        let session = LoginSession {
            nonce: random_letters(22)?,
            person: person.map(|person| (person.id.clone(), person.password_at)),
            since: now,
        };
        let text = session.text();
        let signature = hex(&self.keys.sign(SIGNED, &text));
        Ok((session, format!("{text}.{signature}")))
    }

    /// The login session of a cookie; `None` when its signature is wrong or it has expired.
    #[must_use]
    pub fn login_session(&self, cookie: &str, now: Millis) -> Option<LoginSession> {
        if cookie.len() > COOKIE_MAX_CHARS {
            return None;
        }
        let (text, signature) = cookie.rsplit_once('.')?;
        let signature = unhex(signature)?;
        if !bool::from(self.keys.sign(SIGNED, text).ct_eq(&signature)) {
            return None;
        }
        let session = LoginSession::read(text)?;
        (session.since <= now && now < after(session.since, LOGIN_SESSION_LIFETIME))
            .then_some(session)
    }

    /// The signed-in user, if they can still sign in.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn signed_in_user(&self, session: &LoginSession) -> Result<Option<UserRow>> {
        let Some((id, password_at)) = &session.person else {
            return Ok(None);
        };
        let person = self.store.user(id).await?;
        Ok(person.filter(|person| person.password_at == *password_at))
    }

    /// The token of a form that was shown in this login session for this request. Other sites cannot know it.
    #[must_use]
    pub fn form_token(&self, session: &LoginSession, request: &str) -> String {
        hex(&self
            .keys
            .sign(FORM, &format!("{}\n{request}", session.text())))
    }

    /// Whether a form was shown in this login session for this request.
    #[must_use]
    pub fn is_own_form(&self, session: &LoginSession, request: &str, token: &str) -> bool {
        let right = self.form_token(session, request);
        right.as_bytes().ct_eq(token.as_bytes()).into()
    }
}
