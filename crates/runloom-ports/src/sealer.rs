//! The sealer port: texts are encrypted before they are stored.

/// Encrypts and decrypts texts with the server's master key.
pub trait Sealer: std::fmt::Debug + Send + Sync {
    /// Encrypts a text. `place` binds it to where it is stored: it decrypts only there.
    ///
    /// # Errors
    /// When the system has no randomness.
    fn seal(&self, place: &str, clear: &str) -> Result<String, SealError>;

    /// Decrypts the result of [`Sealer::seal`] for the same place.
    ///
    /// # Errors
    /// When the text was changed, belongs to another place, or was sealed with another master key.
    fn open(&self, place: &str, sealed: &str) -> Result<String, SealError>;
}

/// A text could not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system has no randomness.
    #[error("no randomness to seal a secret with")]
    NoRandomness,
    /// The text is not sealed, was changed, belongs to another place, or was sealed with another master key.
    #[error(
        "a sealed secret cannot be opened: it was changed, or the master key is not the one it was sealed with"
    )]
    Unreadable,
}
