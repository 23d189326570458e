//! Passwords: argon2id, off the async threads, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Concurrent hashes: each takes 19 MiB and a core.
const AT_ONCE: usize = 2;
/// Hashes that may wait for those.
const WAITING: usize = 64;
/// How long they may.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates and checks password hashes. The administrator, who creates them, has a queue separate from sign-ins.
#[derive(Default)]
pub(super) struct Passwords {
    making: Line,
    checking: Line,
}

/// Permits, and a bounded queue for them.
struct Line {
    places: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
        }
    }
}

impl Passwords {
    /// The hash of a new password.
    pub(super) async fn hash(&self, password: &str) -> Result<String> {
        let work = |password: &str| {
            let hash = Argon2::default().hash_password(password.as_bytes());
            hash.map(|hash| hash.to_string()).map_err(Error::internal)
        };
        self.making.work(password, work).await
    }

    /// Whether a password matches this hash. Without a hash the result is false after the same time, so that nobody
    /// learns which addresses exist.
    pub(super) async fn fits(&self, password: &str, hash: Option<String>) -> Result<bool> {
        let work = move |password: &str| {
            let argon2 = Argon2::default();
            let Some(hash) = hash else {
                let _ = argon2.hash_password(password.as_bytes());
                return Ok(false);
            };
            let hash = PasswordHash::new(&hash).map_err(Error::internal)?;
            Ok(argon2.verify_password(password.as_bytes(), &hash).is_ok())
        };
        self.checking.work(password, work).await
    }
}

impl Line {
    async fn work<T: Send + 'static>(
        &self,
        password: &str,
        work: impl FnOnce(&str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = self.place().await?;
        let password = Zeroizing::new(password.to_owned());
        let done = tokio::task::spawn_blocking(move || {
            // Held by the work itself, so that a cancelled request does not free its permit early.
            let _place = place;
            work(&password)
        });
        done.await.map_err(Error::internal)?
    }

    async fn place(&self) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let busy = || Error::Unavailable {
            message: "Too many users sign in at once; try again shortly.".to_owned(),
            retry_after: Duration::from_secs(5),
        };
        let queued = Arc::clone(&self.waiting).try_acquire_owned();
        let queued = queued.map_err(|_| busy())?;
        let place = Arc::clone(&self.places).acquire_owned();
        match tokio::time::timeout(PATIENCE, place).await {
            Ok(Ok(place)) => Ok((place, queued)),
            _ => Err(busy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_fits_and_hashes_differ() {
        let passwords = Passwords::default();
        let one = passwords.hash("correct horse").await.unwrap();
        let two = passwords.hash("correct horse").await.unwrap();
        assert_ne!(one, two);
        assert!(one.starts_with("$argon2id$"), "{one}");
        for (password, fits) in [("correct horse", true), ("correct horsf", false)] {
            let found = passwords.fits(password, Some(one.clone())).await.unwrap();
            assert_eq!(found, fits, "{password}");
        }
        assert!(!passwords.fits("correct horse", None).await.unwrap());
    }

    #[tokio::test]
    async fn who_comes_when_too_many_wait_is_told_so() {
        let passwords = Passwords::default();
        let all = Arc::clone(&passwords.checking.waiting);
        let _all = all.acquire_many_owned((AT_ONCE + WAITING) as u32).await;
        let error = passwords.fits("x", None).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        // The administrator has a separate queue.
        passwords.hash("x").await.unwrap();
    }
}
