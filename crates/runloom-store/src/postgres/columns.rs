//! How the port's types are written into columns and read back.

use std::borrow::Cow;
use std::error::Error;

use runloom_ports::store::{DocumentKind, KeyUsage, Millis};
use runloom_protocol::id::{FeedbackId, GrantId, KeyId, PersonId, RunId, SessionId};
use runloom_protocol::resource::{RunStatus, SessionStatus};
use runloom_protocol::scope::ScopeSet;
use runloom_protocol::spec::Verdict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::error::Failure;

/// Stands in front of what PostgreSQL's text cannot hold, and of itself.
const ESCAPE: char = '\u{1a}';

/// A value as JSON text.
pub(super) fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string(value)?)
}

/// Text as a column can hold it: PostgreSQL knows no NUL, models and clients do.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Text that may be missing, as a column can hold it.
pub(super) fn maybe_text(maybe: Option<&String>) -> Option<Cow<'_, str>> {
    maybe.map(|it| text(it))
}

/// Text as it was before [`text`].
pub(super) struct Text(pub(super) String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let stored = <&str>::from_sql(ty, raw)?;
        if !stored.contains(ESCAPE) {
            return Ok(Self(stored.to_owned()));
        }
        let mut plain = String::with_capacity(stored.len());
        let mut letters = stored.chars();
        while let Some(letter) = letters.next() {
            plain.push(match letter {
                ESCAPE if letters.next() == Some('0') => '\0',
                other => other,
            });
        }
        Ok(Self(plain))
    }

    fn accepts(ty: &Type) -> bool {
        <&str>::accepts(ty)
    }
}

/// A value kept as JSON text.
pub(super) struct Json<T>(pub(super) T);

impl<'a, T: DeserializeOwned> FromSql<'a> for Json<T> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(serde_json::from_str(<&str>::from_sql(ty, raw)?)?))
    }

    fn accepts(ty: &Type) -> bool {
        <&str>::accepts(ty)
    }
}

/// A value kept as one word or id.
pub(super) struct Word<T>(pub(super) T);

macro_rules! words {
    ($($kind:ident: $parse:expr,)*) => {$(
        impl<'a> FromSql<'a> for Word<$kind> {
            fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
                let text = <&str>::from_sql(ty, raw)?;
                let parsed: Option<$kind> = $parse(text);
                parsed.map(Self).ok_or_else(|| {
                    format!("{text:?} is not a {}", stringify!($kind)).into()
                })
            }

            fn accepts(ty: &Type) -> bool {
                <&str>::accepts(ty)
            }
        }
    )*};
}

words!(
    RunStatus: RunStatus::parse,
    SessionStatus: SessionStatus::parse,
    RunId: RunId::parse,
    SessionId: SessionId::parse,
    KeyId: KeyId::parse,
    FeedbackId: FeedbackId::parse,
    Verdict: Verdict::parse,
    PersonId: PersonId::parse,
    GrantId: GrantId::parse,
    ScopeSet: parse_scopes,
    KeyUsage: parse_usage,
    DocumentKind: DocumentKind::parse,
);

/// The word of a key's use.
pub(super) fn word_of_usage(usage: KeyUsage) -> &'static str {
    match usage {
        KeyUsage::DeveloperApi => "developer_api",
        KeyUsage::A2a => "a2a",
        KeyUsage::Mcp => "mcp",
    }
}

fn parse_usage(word: &str) -> Option<KeyUsage> {
    [KeyUsage::DeveloperApi, KeyUsage::A2a, KeyUsage::Mcp]
        .into_iter()
        .find(|usage| word_of_usage(*usage) == word)
}

fn parse_scopes(words: &str) -> Option<ScopeSet> {
    ScopeSet::parse(words).ok()
}

/// A keyed hash of a column.
pub(super) fn get_hash(row: &Row, column: &str) -> Result<[u8; 32], Failure> {
    Ok(hash_of(row.try_get(column)?))
}

/// A keyed hash; what is no hash is one that nothing has.
pub(super) fn hash_of(stored: &[u8]) -> [u8; 32] {
    stored.try_into().unwrap_or_default()
}

/// Text of a column.
pub(super) fn get_text(row: &Row, column: &str) -> Result<String, Failure> {
    Ok(row.try_get::<_, Text>(column)?.0)
}

/// Text of a column that may be empty.
pub(super) fn get_maybe_text(row: &Row, column: &str) -> Result<Option<String>, Failure> {
    Ok(row.try_get::<_, Option<Text>>(column)?.map(|it| it.0))
}

/// A word of a column.
pub(super) fn get_word<T>(row: &Row, column: &str) -> Result<T, Failure>
where
    for<'a> Word<T>: FromSql<'a>,
{
    Ok(row.try_get::<_, Word<T>>(column)?.0)
}

/// JSON of a column.
pub(super) fn get_json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, Failure> {
    Ok(row.try_get::<_, Json<T>>(column)?.0)
}

/// JSON of a column that may be empty.
pub(super) fn get_maybe_json<T: DeserializeOwned>(
    row: &Row,
    column: &str,
) -> Result<Option<T>, Failure> {
    Ok(row.try_get::<_, Option<Json<T>>>(column)?.map(|it| it.0))
}

/// A time.
pub(super) fn get_time(row: &Row, column: &str) -> Result<Millis, Failure> {
    Ok(Millis(row.try_get(column)?))
}

/// A time that may be missing.
pub(super) fn get_maybe_time(row: &Row, column: &str) -> Result<Option<Millis>, Failure> {
    Ok(row.try_get::<_, Option<i64>>(column)?.map(Millis))
}

/// A number of the port that is kept as a larger one.
pub(super) fn get_count(row: &Row, column: &str) -> Result<u32, Failure> {
    Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::{FromSql, Type};

    use super::{Text, text};

    #[test]
    fn text_comes_back_as_it_was_and_never_holds_a_nul() {
        for odd in ["", "plain", "\0", "a\0b\u{1a}c", "\u{1a}0", "\u{1a}\0\0é"] {
            let stored = text(odd);
            assert!(!stored.contains('\0'));
            let back = Text::from_sql(&Type::TEXT, stored.as_bytes()).unwrap();
            assert_eq!(back.0, odd);
        }
    }
}
