//! Enums whose variants are words of a document.

use std::fmt;

/// An enum whose variants are words of a document.
pub trait Keyword: Copy + 'static {
    /// Every variant, in the order in which messages name them.
    const ALL: &'static [Self];

    /// The word in the document.
    fn word(self) -> &'static str;
}

/// The words of a [`Keyword`] for a message: `` `a`, `b` or `c` ``.
pub(super) struct Alternatives<K>(pub(super) std::marker::PhantomData<K>);

impl<K: Keyword> fmt::Display for Alternatives<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = K::ALL.len().saturating_sub(1);
        for (index, keyword) in K::ALL.iter().enumerate() {
            let separator = match index {
                0 => "",
                _ if index == last => " or ",
                _ => ", ",
            };
            write!(f, "{separator}`{}`", keyword.word())?;
        }
        Ok(())
    }
}
