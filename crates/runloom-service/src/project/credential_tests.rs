//! Credentials: their form, and what makes them invalid.

use super::*;

#[test]
fn signatures_depend_on_the_master_key_and_the_text() {
    let (one, two) = (SigningKey::new(b"one"), SigningKey::new(b"two"));
    assert_eq!(one.sign("x"), one.sign("x"));
    assert_ne!(one.sign("x"), two.sign("x"));
    assert_ne!(one.sign("x"), one.sign("y"));
}
