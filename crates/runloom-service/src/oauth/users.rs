//! Users who can sign in: managed by the administrator, identified by address and password.

use runloom_protocol::admin::PutUser;
use runloom_protocol::id::UserId;

use super::{OAuthService, new_user_id};
use crate::auth::CredentialId;
use crate::error::{Error, Result};
use crate::rate::{Bucket, RateLimiter};
use crate::tenancy::{NAME_MAX_CHARS, checked, issue};
use crate::vault::hex;
use runloom_ports::store::{Millis, UserChange, UserRow};

/// Characters of an address.
const EMAIL_MAX_CHARS: usize = 254;
/// Length of a password in characters. Longer ones are slower, not safer.
const PASSWORD_CHARS: std::ops::RangeInclusive<usize> = 12..=256;
/// Maximum workspaces of one user.
const WORKSPACES_MAX: usize = 100;

impl OAuthService {
    /// Creates a user, or changes the one with this address. When a user leaves a workspace, the grants they gave
    /// there are deleted.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a bad address, name or password; [`Error::NotFound`] without the workspace.
    pub async fn put_user(&self, email: &str, put: PutUser, now: Millis) -> Result<UserRow> {
        let email = email.trim().to_lowercase();
        check(&email, &put)?;
        let mut workspaces = None;
        if let Some(slugs) = &put.workspaces {
            let known = workspaces.insert(Vec::new());
            for slug in slugs {
                known.push(self.tenancy.workspace(slug).await?.no);
            }
        }
        let password = match &put.password {
            Some(password) => Some(self.passwords.hash(password).await?),
            None => None,
        };
        let person = UserChange {
            id: new_user_id()?,
            email,
            name: put.name,
            password,
            workspaces,
        };
        let stored = self.store.put_user(person, now).await?;
        self.tenancy.changed();
        stored.ok_or_else(|| Error::invalid("password", "is needed for a new person"))
    }

    /// Everybody, by address.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_users(&self) -> Result<Vec<UserRow>> {
        Ok(self.store.users().await?)
    }

    /// One user, by address or id.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn user(&self, email_or_id: &str) -> Result<UserRow> {
        let found = match UserId::parse(email_or_id) {
            Some(id) => self.store.user(&id).await?,
            None => {
                let email = email_or_id.trim().to_lowercase();
                self.store.user_by_email(&email).await?
            }
        };
        found.ok_or(Error::NotFound { what: "user" })
    }

    /// Deletes a person and all that they allowed.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn delete_user(&self, email_or_id: &str) -> Result<()> {
        let person = self.user(email_or_id).await?;
        self.store.delete_user(&person.id).await?;
        self.tenancy.changed();
        Ok(())
    }

    /// The user with this address, if the password is right. Known and unknown addresses take the same time.
    ///
    /// # Errors
    /// [`Error::RateLimited`] after too many attempts for an address, [`Error::Unavailable`] when too many users sign
    /// in at once.
    pub async fn sign_in(
        &self,
        rates: &RateLimiter,
        (email, password): (&str, &str),
        now: Millis,
    ) -> Result<Option<UserRow>> {
        let email = email.trim().to_lowercase();
        if email.len() > EMAIL_MAX_CHARS || password.len() > 4 * PASSWORD_CHARS.end() {
            return Ok(None);
        }
        let bucket = Bucket::SignIns;
        let limit = rates.limit(None, bucket);
        rates
            .let_in_as(&self.window(&email), limit, bucket, now)
            .await?;
        let person = self.store.user_by_email(&email).await?;
        let hash = person.as_ref().map(|person| person.password.clone());
        let fits = self.passwords.fits(password, hash).await?;
        Ok(person.filter(|_| fits))
    }

    /// The rate limit window of an address. There are 65,536 windows, so that invented addresses cost no memory.
    fn window(&self, email: &str) -> CredentialId {
        let [first, second, ..] = self.keys.sign("sign-in window", email);
        CredentialId::of_other(&format!("sign-in:{}", hex(&[first, second])))
    }
}

fn check(email: &str, put: &PutUser) -> Result<()> {
    let mut issues = Vec::new();
    if !check_email(email) {
        let message = "must be an e-mail address like ada@example.com";
        issues.push(issue("email", message));
    }
    if let Some(name) = &put.name
        && name.chars().count() > NAME_MAX_CHARS
    {
        issues.push(issue("name", "must have at most 256 characters"));
    }
    if let Some(password) = &put.password
        && !PASSWORD_CHARS.contains(&password.chars().count())
    {
        issues.push(issue("password", "must have 12–256 characters"));
    }
    if put.workspaces.iter().flatten().count() > WORKSPACES_MAX {
        issues.push(issue("workspaces", "must have at most 100 entries"));
    }
    checked(issues)
}

/// Whether a text has the form of an address.
#[must_use]
pub fn check_email(email: &str) -> bool {
    let plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
    let parts = email.split_once('@');
    let two = parts.is_some_and(|(who, at)| !who.is_empty() && !at.is_empty() && !at.contains('@'));
    two && email.len() <= EMAIL_MAX_CHARS && email.chars().all(plain) && !email.contains('/')
}
