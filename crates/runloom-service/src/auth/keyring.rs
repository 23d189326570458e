//! API keys: generation, hashing and lookup.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::vault::{hex, unhex};
use runloom_ports::sealer::Sealer;
use runloom_ports::store::Registry;

/// Prefix of every API key.
pub const KEY_PREFIX: &str = "mantyx_";

/// Random characters of a new key: 43 of 62 letters carry 256 bits.
const KEY_RANDOM_CHARS: usize = 43;

/// Characters that a key is found by.
const LOOKUP_CHARS: usize = 15;

/// The setting that holds the sealed server key.
const SERVER_KEY_SETTING: &str = "api_key_server_key";

/// Hashes and generates API keys.
pub struct KeyRing {
    server_key: [u8; 32],
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRing(…)")
    }
}

impl KeyRing {
    /// Derives the server key. The label separates it from other keys derived from the same master key.
    #[must_use]
    pub fn new(master_key: &[u8]) -> Self {
        Self {
            server_key: hmac(master_key, b"runloom api keys 1"),
        }
    }

    /// The key ring of a database. Its server key is derived from `master_key` at the first start and then stored,
    /// sealed: the hashes of API keys cannot be recomputed, so the key must survive a change of the master key.
    ///
    /// # Errors
    /// When the store fails, or the stored key was sealed with an unknown master key.
    pub async fn kept(
        store: &dyn Registry,
        sealer: &dyn Sealer,
        master_key: &[u8],
    ) -> Result<Self> {
        let first = hex(&Self::new(master_key).server_key);
        let sealed = sealer
            .seal(SERVER_KEY_SETTING, &first)
            .map_err(Error::internal)?;
        let kept = store.setting_or(SERVER_KEY_SETTING, &sealed).await?;
        let clear = sealer
            .open(SERVER_KEY_SETTING, &kept)
            .map_err(Error::internal)?;
        let server_key = unhex(&clear)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| Error::internal("the kept key for API keys is damaged"))?;
        Ok(Self { server_key })
    }

    /// Seals the stored server key again.
    pub(crate) async fn reseal(store: &dyn Registry, sealer: &dyn Sealer) -> Result<()> {
        let Some(kept) = store.setting(SERVER_KEY_SETTING).await? else {
            return Ok(());
        };
        let clear = sealer
            .open(SERVER_KEY_SETTING, &kept)
            .map_err(Error::internal)?;
        let sealed = sealer
            .seal(SERVER_KEY_SETTING, &clear)
            .map_err(Error::internal)?;
        Ok(store.put_setting(SERVER_KEY_SETTING, &sealed).await?)
    }

    /// The stored hash of a key.
    #[must_use]
    pub fn hash(&self, key: &str) -> [u8; 32] {
        hmac(&self.server_key, key.as_bytes())
    }

    /// Generates a key.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn generate(&self) -> Result<String> {
        Ok(format!("{KEY_PREFIX}{}", random_letters(KEY_RANDOM_CHARS)?))
    }

    /// Generates a token with another prefix.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub(crate) fn generate_as(&self, prefix: &str) -> Result<String> {
        Ok(format!("{prefix}{}", random_letters(KEY_RANDOM_CHARS)?))
    }

    /// The lookup prefix of a token: its public prefix and eight more characters.
    #[must_use]
    pub(crate) fn lookup_prefix_of<'token>(prefix: &str, token: &'token str) -> &'token str {
        let shown = prefix.len() + (LOOKUP_CHARS - KEY_PREFIX.len());
        token.get(..shown).unwrap_or(token)
    }

    /// A signature under the server key, for texts that clients send back. The purpose prevents a text of one kind
    /// from being accepted as another.
    #[must_use]
    pub(crate) fn sign(&self, purpose: &str, text: &str) -> [u8; 32] {
        hmac(&hmac(&self.server_key, purpose.as_bytes()), text.as_bytes())
    }

    /// The lookup prefix of a key: its first characters, which may be shown. At most a quarter of the secret part of
    /// a short key from a configuration.
    #[must_use]
    pub fn lookup_prefix(key: &str) -> &str {
        let secret = key.len().saturating_sub(KEY_PREFIX.len());
        let shown = LOOKUP_CHARS.min(KEY_PREFIX.len() + secret / 4);
        key.get(..shown).unwrap_or(KEY_PREFIX)
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC pads a short key with zeros to one block; a digest always fits, so a key of any length is accepted.
    let mut block = [0_u8; 64];
    block[..32].copy_from_slice(&Sha256::digest(key));
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Random letters and digits, each equally likely.
pub(crate) fn random_letters(count: usize) -> Result<String> {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(count);
    let mut bytes = [0_u8; 64];
    while text.len() < count {
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(error.to_string()))?;
        // Bytes from 248 on are thrown away: 248 is the last multiple of 62, so no letter is favoured.
        let letters = bytes
            .iter()
            .filter(|&&byte| byte < 248)
            .map(|&byte| char::from(LETTERS[usize::from(byte % 62)]));
        let missing = count - text.len();
        text.extend(letters.take(missing));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_the_master_key_and_the_whole_key() {
        let ring = KeyRing::new(b"one");
        let key = ring.generate().unwrap();
        assert_eq!(ring.hash(&key), ring.hash(&key));
        assert_ne!(ring.hash(&key), ring.hash(&key[..key.len() - 1]));
        assert_ne!(ring.hash(&key), KeyRing::new(b"two").hash(&key));
    }

    #[test]
    fn new_keys_are_long_and_all_different() {
        let ring = KeyRing::new(b"one");
        let (a, b) = (ring.generate().unwrap(), ring.generate().unwrap());
        assert_ne!(a, b);
        assert!(a.starts_with(KEY_PREFIX) && a.len() >= KEY_PREFIX.len() + 40);
        assert!(
            a[KEY_PREFIX.len()..]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric())
        );
        assert_eq!(KeyRing::lookup_prefix(&a), &a[..15]);
    }

    #[test]
    fn the_lookup_prefix_gives_little_of_a_short_key_away() {
        assert_eq!(KeyRing::lookup_prefix("mantyx_12345678"), "mantyx_12");
        assert_eq!(KeyRing::lookup_prefix("mantyx_"), "mantyx_");
    }
}
