//! Who sits at a browser: a signed text in a cookie, so that no process has to remember it.

use std::time::Duration;

use runloom_protocol::id::PersonId;
use subtle::ConstantTimeEq;

use super::{OAuthService, after};
use crate::auth::random_letters;
use crate::error::Result;
use crate::vault::{hex, unhex};
use runloom_ports::store::{Millis, PersonRow};

/// How long somebody stays signed in.
pub const LOGIN_SESSION_LIFETIME: Duration = Duration::from_secs(3600);

/// Longest cookie that is looked at.
const COOKIE_MAX_CHARS: usize = 512;

const SIGNED: &str = "oauth seat 1";
const FORM: &str = "oauth form 1";

/// A browser, and who has signed in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSession {
    nonce: String,
    /// Who, and when their password was last set: another password ends every seat.
    person: Option<(PersonId, Millis)>,
    since: Millis,
}

impl LoginSession {
    /// Whether somebody has signed in.
    #[must_use]
    pub fn is_taken(&self) -> bool {
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
        let person = PersonId::parse(person).map(|id| (id, Millis(password_at)));
        Some(Self {
            nonce: nonce.to_owned(),
            person,
            since,
        })
    }
}

impl OAuthService {
    /// A new seat, for somebody or nobody yet. Its text is for the cookie.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn new_login_session(
        &self,
        person: Option<&PersonRow>,
        now: Millis,
    ) -> Result<(LoginSession, String)> {
        let seat = LoginSession {
            nonce: random_letters(22)?,
            person: person.map(|person| (person.id.clone(), person.password_at)),
            since: now,
        };
        let text = seat.text();
        let signature = hex(&self.keys.sign(SIGNED, &text));
        Ok((seat, format!("{text}.{signature}")))
    }

    /// The seat of a cookie; `None` when it is not ours, or from long ago.
    #[must_use]
    pub fn seat(&self, cookie: &str, now: Millis) -> Option<LoginSession> {
        if cookie.len() > COOKIE_MAX_CHARS {
            return None;
        }
        let (text, signature) = cookie.rsplit_once('.')?;
        let signature = unhex(signature)?;
        if !bool::from(self.keys.sign(SIGNED, text).ct_eq(&signature)) {
            return None;
        }
        let seat = LoginSession::read(text)?;
        (seat.since <= now && now < after(seat.since, LOGIN_SESSION_LIFETIME)).then_some(seat)
    }

    /// Who has signed in there, if they still can.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sitting(&self, seat: &LoginSession) -> Result<Option<PersonRow>> {
        let Some((id, password_at)) = &seat.person else {
            return Ok(None);
        };
        let person = self.store.person(id).await?;
        Ok(person.filter(|person| person.password_at == *password_at))
    }

    /// What a form that was shown at this seat for this request carries, and no form from elsewhere can.
    #[must_use]
    pub fn form_token(&self, seat: &LoginSession, request: &str) -> String {
        hex(&self.keys.sign(FORM, &format!("{}\n{request}", seat.text())))
    }

    /// Whether a form was shown at this seat for this request.
    #[must_use]
    pub fn is_own_form(&self, seat: &LoginSession, request: &str, token: &str) -> bool {
        let right = self.form_token(seat, request);
        right.as_bytes().ct_eq(token.as_bytes()).into()
    }
}
