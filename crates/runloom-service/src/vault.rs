//! The vault: secrets are sealed before they are stored, and opened only when they are used.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use runloom_ports::sealer::{SealError, Sealer};
use sha2::Sha256;

/// What a sealed text starts with; the number is the format's version.
const PREFIX: &str = "sealed:1:";
/// Bytes of a nonce.
const NONCE: usize = 24;

/// Seals and opens texts with a key derived from the server's master key.
#[derive(Clone)]
pub struct Vault {
    cipher: XChaCha20Poly1305,
    previous: Option<XChaCha20Poly1305>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(…)")
    }
}

impl Vault {
    /// A vault for this master key.
    #[must_use]
    pub fn new(master_key: &[u8]) -> Self {
        Self {
            cipher: cipher(master_key),
            previous: None,
        }
    }

    /// The same, which also opens what was sealed with the key from before.
    #[must_use]
    pub fn with_previous(self, master_key: &[u8]) -> Self {
        Self {
            previous: Some(cipher(master_key)),
            ..self
        }
    }

    /// Whether a text looks like one that was sealed.
    #[must_use]
    pub fn is_sealed(text: &str) -> bool {
        text.starts_with(PREFIX)
    }
}

impl Sealer for Vault {
    fn seal(&self, place: &str, clear: &str) -> Result<String, SealError> {
        let mut nonce = [0_u8; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let payload = Payload {
            msg: clear.as_bytes(),
            aad: place.as_bytes(),
        };
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| SealError::Unreadable)?;
        Ok(format!("{PREFIX}{}{}", hex(&nonce), hex(&sealed)))
    }

    fn open(&self, place: &str, sealed: &str) -> Result<String, SealError> {
        let bytes = sealed
            .strip_prefix(PREFIX)
            .and_then(unhex)
            .ok_or(SealError::Unreadable)?;
        let (nonce, body) = bytes.split_at_checked(NONCE).ok_or(SealError::Unreadable)?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| SealError::Unreadable)?;
        let clear = std::iter::once(&self.cipher)
            .chain(&self.previous)
            .find_map(|cipher| {
                let payload = Payload {
                    msg: body,
                    aad: place.as_bytes(),
                };
                cipher.decrypt(&XNonce::from(nonce), payload).ok()
            });
        let clear = clear.ok_or(SealError::Unreadable)?;
        String::from_utf8(clear).map_err(|_| SealError::Unreadable)
    }
}

fn cipher(master_key: &[u8]) -> XChaCha20Poly1305 {
    let mut mac =
        <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(master_key).unwrap_or_else(|_| {
            <Hmac<Sha256> as hmac::KeyInit>::new(&hmac::digest::Key::<Hmac<Sha256>>::default())
        });
    mac.update(b"runloom vault 1");
    let key: [u8; 32] = mac.finalize().into_bytes().into();
    XChaCha20Poly1305::new(&key.into())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_only_at_its_place_and_with_its_key() {
        let vault = Vault::new(b"master");
        let sealed = vault
            .seal("acme/run_1/tools[0]/Authorization", "Bearer s3cret ✓")
            .unwrap();
        assert!(!sealed.contains("s3cret"));
        assert_eq!(
            vault
                .open("acme/run_1/tools[0]/Authorization", &sealed)
                .unwrap(),
            "Bearer s3cret ✓"
        );
        assert_eq!(
            vault.open("acme/run_2/tools[0]/Authorization", &sealed),
            Err(SealError::Unreadable)
        );
        let other = Vault::new(b"other");
        assert_eq!(
            other.open("acme/run_1/tools[0]/Authorization", &sealed),
            Err(SealError::Unreadable)
        );
    }

    #[test]
    fn the_key_from_before_opens_but_does_not_seal() {
        let old = Vault::new(b"old");
        let new = Vault::new(b"new").with_previous(b"old");
        let sealed = old.seal("p", "x").unwrap();
        assert_eq!(new.open("p", &sealed).unwrap(), "x");
        let again = new.seal("p", "x").unwrap();
        assert_eq!(old.open("p", &again), Err(SealError::Unreadable));
        assert_eq!(Vault::new(b"new").open("p", &again).unwrap(), "x");
    }

    #[test]
    fn a_text_that_was_never_sealed_or_was_changed_is_refused() {
        let vault = Vault::new(b"master");
        let sealed = vault.seal("p", "x").unwrap();
        let mut changed = sealed;
        let last = changed.pop().unwrap();
        changed.push(if last == '0' { '1' } else { '0' });
        for text in [
            "",
            "x",
            "sealed:1:",
            "sealed:1:zz",
            "sealed:1:é0",
            changed.as_str(),
        ] {
            assert_eq!(vault.open("p", text), Err(SealError::Unreadable), "{text}");
        }
    }
}
