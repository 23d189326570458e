//! Query strings. Unknown parameters are ignored, as unknown fields of bodies are.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use runloom_protocol::limits::{METADATA_MAX, REFERENCE_MAX_CHARS};
use runloom_service::error::Error;

use crate::app::App;
use crate::error::{Answer, Refusal};

/// The parameters in order, including repeated ones.
#[derive(Debug, Default)]
pub(crate) struct QueryPairs(Vec<(String, String)>);

impl FromRequestParts<App> for QueryPairs {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Answer<Self> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(pairs)) => Ok(Self(pairs)),
            Err(_) => Err(Error::invalid("query", "is not a valid query string").into()),
        }
    }
}

impl QueryPairs {
    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A short text; an empty one counts as absent.
    pub(crate) fn text(&self, name: &str) -> Answer<Option<String>> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) if text.chars().count() > REFERENCE_MAX_CHARS => {
                let message = format!("must have at most {REFERENCE_MAX_CHARS} characters");
                Err(Error::invalid(name, message).into())
            }
            Some(text) => Ok(Some(text.to_owned())),
        }
    }

    /// An integer within bounds.
    pub(crate) fn integer(&self, name: &str, bounds: (u64, u64)) -> Answer<Option<u64>> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let (least, most) = bounds;
        let number = digits(text).filter(|number| (least..=most).contains(number));
        match number {
            Some(number) => Ok(Some(number)),
            None if most >= i64::MAX as u64 => {
                let message = format!("must be an integer, {least} or more");
                Err(Error::invalid(name, message).into())
            }
            None => {
                let message = format!("must be an integer from {least} to {most}");
                Err(Error::invalid(name, message).into())
            }
        }
    }

    /// A flag; its bare name means true.
    pub(crate) fn flag(&self, name: &str) -> Answer<bool> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(_) => Err(Error::invalid(name, "must be `true` or `false`").into()),
        }
    }

    /// One word of a comma-separated list, parsed.
    pub(crate) fn word<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        known: &str,
    ) -> Answer<Option<T>> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => match parse(text) {
                Some(value) => Ok(Some(value)),
                None => Err(Error::invalid(name, format!("must be one of {known}")).into()),
            },
        }
    }

    /// `metadata=key:value`, any number of times; all must match.
    pub(crate) fn metadata(&self) -> Answer<Vec<(String, String)>> {
        let mut metadata = Vec::new();
        for (name, pair) in &self.0 {
            // Other APIs use this spelling. If it were ignored, the filter would match everything.
            if name.starts_with("metadata.") || name.starts_with("metadata[") {
                let message = "is not a filter; write `metadata=key:value`";
                return Err(Error::invalid(short(name), message).into());
            }
            if name != "metadata" {
                continue;
            }
            let Some((key, value)) = pair.split_once(':').filter(|(key, _)| !key.is_empty()) else {
                return Err(Error::invalid("metadata", "must look like `key:value`").into());
            };
            metadata.push((key.to_owned(), value.to_owned()));
        }
        if metadata.len() > METADATA_MAX {
            let message = format!("must be given at most {METADATA_MAX} times");
            return Err(Error::invalid("metadata", message).into());
        }
        Ok(metadata)
    }
}

/// A parameter name, shortened for a message.
fn short(name: &str) -> String {
    name.chars().take(100).collect()
}

/// A number in digits only, within the range of the store.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = plain.then(|| text.parse().ok())??;
    (number <= i64::MAX as u64).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> QueryPairs {
        let uri = format!("/x?{query}").parse().unwrap();
        QueryPairs(Query::try_from_uri(&uri).unwrap().0)
    }

    #[test]
    fn bounds_integers() {
        let bounds = (1, 200);
        assert_eq!(pairs("").integer("limit", bounds).unwrap(), None);
        assert_eq!(
            pairs("limit=200").integer("limit", bounds).unwrap(),
            Some(200)
        );
        for bad in [
            "0",
            "201",
            "-1",
            "%2B5",
            "1.5",
            "x",
            "",
            "99999999999999999999",
        ] {
            assert!(
                pairs(&format!("limit={bad}"))
                    .integer("limit", bounds)
                    .is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn reads_flags() {
        for (query, on) in [
            ("", false),
            ("full", true),
            ("full=1", true),
            ("full=false", false),
        ] {
            assert_eq!(pairs(query).flag("full").unwrap(), on, "{query}");
        }
        assert!(pairs("full=maybe").flag("full").is_err());
    }

    #[test]
    fn reads_metadata_filters() {
        let metadata = pairs("metadata=a:1&metadata=url:http://x&limit=3")
            .metadata()
            .unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(metadata, [pair("a", "1"), pair("url", "http://x")]);
        for bad in ["metadata=a", "metadata=:b", "metadata.a=b", "metadata[a]=b"] {
            assert!(pairs(bad).metadata().is_err(), "{bad}");
        }
    }
}
