//! Enums whose variants are words of a document.

use std::fmt;

/// An enum whose variants are words of a document.
pub trait Keyword: Copy + 'static {
    /// Every variant, in the order in which messages name them.
    const ALL: &'static [Self];

    /// The word in the document.
    fn word(self) -> &'static str;

    /// The variant of a word.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.word() == word)
    }
}

/// Declares an enum with its words, each beside its variant: `ALL`, `as_str`, `parse`, [`Keyword`] and serde all use
/// them.
macro_rules! keywords {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $visibility enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every variant.
            $visibility const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word on the wire.
            #[must_use]
            $visibility fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// The variant of a word.
            #[must_use]
            $visibility fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl $crate::read::Keyword for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn word(self) -> &'static str {
                self.as_str()
            }

            fn from_word(word: &str) -> Option<Self> {
                Self::parse(word)
            }
        }
    };
}

pub(crate) use keywords;

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
