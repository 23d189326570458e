//! The secrets of one call: read when it begins, sent to the peer, redacted from everything that comes back.

use std::collections::BTreeMap;

use runloom_ports::error::Chain;
use runloom_ports::secret::{MASK, Secret, redact_schema};
use runloom_ports::tools::{Outcome, ServerTool, ToolDefinitions};
use runloom_protocol::definition::template::{self, Piece};

use crate::content::MAX_MCP_ERROR_BYTES;
use crate::escape;

/// Minimum length of a literal header value that is redacted from responses; shorter ones may be ordinary words.
const LITERAL_MIN_BYTES: usize = 8;

/// Minimum length of a literal header value that is redacted from log lines.
const LOGGED_MIN_BYTES: usize = 4;

/// Minimum length of the beginning of a secret that is redacted at the end of a truncated text.
const TAIL_MIN_BYTES: usize = 4;

/// Headers whose literal values are not credentials.
const HARMLESS_HEADERS: [&str; 8] = [
    "accept",
    "accept-language",
    "cache-control",
    "content-type",
    "origin",
    "prefer",
    "referer",
    "user-agent",
];

/// Words in the names of headers that carry credentials. Used for the headers of a run's refs, which may also hold
/// ordinary values (`X-Env: production`) whose redaction would damage responses.
const CREDENTIAL_WORDS: [&str; 9] = [
    "auth",
    "cookie",
    "credential",
    "key",
    "pass",
    "secret",
    "session",
    "signature",
    "token",
];

/// Secrets that a call may use and must not reveal.
#[derive(Debug, Default)]
pub(crate) struct CallSecrets {
    by_name: BTreeMap<String, Secret>,
    /// Every encoding in which a peer could repeat a secret, the longest first.
    encodings: Vec<Secret>,
}

impl CallSecrets {
    /// Reads the secrets with these names.
    ///
    /// # Errors
    /// A message for the model when a secret does not exist or cannot be read.
    pub(crate) async fn read<'n>(
        definitions: &dyn ToolDefinitions,
        workspace: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let mut secrets = Self::default();
        for name in names {
            if secrets.by_name.contains_key(name) {
                continue;
            }
            match definitions.secret(workspace, name).await {
                Ok(Some(secret)) => {
                    secrets.hide(secret.expose());
                    secrets.by_name.insert(name.to_owned(), secret);
                }
                Ok(None) => {
                    return Err(format!(
                        "the workspace has no secret `{name}`, which this tool needs"
                    ));
                }
                Err(error) => {
                    tracing::warn!(secret = name, error = %Chain(&error), "secret of a tool cannot be read");
                    return Err(format!("the secret `{name}` cannot be read"));
                }
            }
        }
        Ok(secrets)
    }

    /// The credentials among the plain-text headers of a ref, by header name.
    pub(crate) fn of_headers(headers: &BTreeMap<String, String>) -> Self {
        let mut secrets = Self::default();
        secrets.hide_literals(headers, LITERAL_MIN_BYTES, is_credential_header);
        secrets
    }

    /// All header values that must not be logged, also those too short to be redacted from responses.
    pub(crate) fn of_logged_headers(headers: &BTreeMap<String, String>) -> Self {
        let mut secrets = Self::default();
        secrets.hide_literals(headers, LOGGED_MIN_BYTES, is_not_harmless);
        secrets
    }

    /// Adds the literal header values of a definition, except those of headers that are known to be harmless.
    pub(crate) fn hide_headers(&mut self, headers: &BTreeMap<String, String>) {
        self.hide_literals(headers, LITERAL_MIN_BYTES, is_not_harmless);
    }

    fn hide_literals(
        &mut self,
        headers: &BTreeMap<String, String>,
        min_bytes: usize,
        is_hidden: impl Fn(&str) -> bool,
    ) {
        for (_, value) in headers.iter().filter(|(name, _)| is_hidden(name)) {
            // A value that is not a valid template is a literal with braces.
            let pieces = template::pieces(value).unwrap_or_else(|_| vec![Piece::Text(value)]);
            for piece in pieces {
                let Piece::Text(text) = piece else { continue };
                // `Bearer abc`: peers may repeat the token without its scheme.
                let token = text.trim_end().rsplit(' ').next().unwrap_or_default();
                for text in [text.trim(), token] {
                    if text.len() >= min_bytes {
                        self.hide(text);
                    }
                }
            }
        }
    }

    /// A secret in plain text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(Secret::expose)
    }

    /// Every secret in plain text, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_name
            .iter()
            .map(|(name, secret)| (name.as_str(), secret.expose()))
    }

    /// Fills the secrets into a text of a definition.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        template::fill_secrets(text, |name| self.get(name).map(str::to_owned))
            .map_err(|name| format!("the workspace has no secret `{name}`, which this tool needs"))
    }

    /// Fills the secrets into the headers of a definition.
    pub(crate) fn fill_headers(
        &self,
        headers: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let filled = headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.fill(value)?)));
        filled.collect()
    }

    /// Replaces the secrets in a text by a mask.
    pub(crate) fn redact(&self, text: String) -> String {
        let found = |text: &String, secret: &Secret| text.contains(secret.expose());
        self.encodings.iter().fold(text, |text, secret| {
            if found(&text, secret) {
                secret.redact(&text)
            } else {
                text
            }
        })
    }

    /// Redacts the text and the files of an outcome.
    pub(crate) fn redact_outcome(&self, outcome: Outcome) -> Outcome {
        if self.encodings.is_empty() {
            return outcome;
        }
        outcome.redacted(&|text| self.redact(text.to_owned()))
    }

    /// [`Self::redact`] for a truncated text, whose end may be the beginning of a secret.
    pub(crate) fn redact_truncated(&self, text: String) -> String {
        let mut text = self.redact(text);
        let tail = |secret: &Secret| {
            let clear = secret.expose();
            let longest = clear.len().saturating_sub(1).min(text.len());
            (TAIL_MIN_BYTES..=longest)
                .rev()
                .find(|&length| clear.is_char_boundary(length) && text.ends_with(&clear[..length]))
        };
        if let Some(length) = self.encodings.iter().filter_map(tail).max() {
            text.truncate(text.len() - length);
            text.push_str(MASK);
        }
        text
    }

    /// Redacts a peer's error message, which may have been truncated in the middle of a secret.
    pub(crate) fn redact_failure(&self, reason: String) -> String {
        if reason.len() < MAX_MCP_ERROR_BYTES {
            self.redact(reason)
        } else {
            self.redact_truncated(reason)
        }
    }

    /// Redacts the description and the schemas of a tool that a peer lists.
    pub(crate) fn redact_tool(&self, mut tool: ServerTool) -> ServerTool {
        tool.description = self.redact(tool.description);
        if !self.encodings.is_empty() {
            let redact = |text: &str| self.redact(text.to_owned());
            redact_schema(&mut tool.parameters, &redact);
            if let Some(schema) = &mut tool.output_schema {
                redact_schema(schema, &redact);
            }
        }
        tool
    }

    fn hide(&mut self, clear: &str) {
        let mut encodings = vec![clear.to_owned()];
        encodings.push(escape::json_string(clear));
        encodings.push(escape::percent(clear));
        encodings.push(escape::percent(clear).replace("%20", "+"));
        encodings.push(escape::markup(clear));
        encodings.retain(|encoded| {
            let mut known = self.encodings.iter();
            !known.any(|known| known.expose() == encoded)
        });
        encodings.dedup();
        self.encodings
            .extend(encodings.into_iter().map(Secret::new));
        self.encodings
            .sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
    }
}

fn is_credential_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
}

fn is_not_harmless(name: &str) -> bool {
    !HARMLESS_HEADERS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
impl CallSecrets {
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let mut secrets = Self::default();
        for (name, clear) in pairs {
            secrets.hide(clear);
            secrets
                .by_name
                .insert((*name).to_owned(), Secret::new(*clear));
        }
        secrets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_every_encoding_of_a_secret() {
        let secrets = CallSecrets::of(&[("A", "p\"ss /w&rd")]);
        for text in [
            r#"you sent p"ss /w&rd"#,
            r#"{"got": "p\"ss /w&rd"}"#,
            "?k=p%22ss%20%2Fw%26rd",
            "?k=p%22ss+%2Fw%26rd",
            "<b>p&quot;ss /w&amp;rd</b>",
        ] {
            let shown = secrets.redact(text.to_owned());
            assert!(shown.contains("***"), "{shown}");
            assert!(!shown.contains("ss"), "{shown}");
        }
        assert_eq!(secrets.redact("nothing".to_owned()), "nothing");
    }

    #[test]
    fn redacts_the_beginning_of_a_secret_at_the_end_of_a_truncated_text() {
        let secrets = CallSecrets::of(&[("A", "canary-1234")]);
        let cut = |text: &str| secrets.redact_truncated(text.to_owned());
        assert_eq!(cut("got canary-12"), "got ***");
        assert_eq!(cut("got canary-1234"), "got ***");
        assert_eq!(cut("got can"), "got can");
        assert_eq!(cut(""), "");
    }

    #[test]
    fn redacts_literal_headers_unless_they_are_harmless() {
        let headers = [
            ("Authorization", "Bearer tok-12345678"),
            ("Accept", "application/json"),
            ("X-Version", "2024"),
            ("X-Named", "{{secret:A}}"),
            ("X-Mixed", "Key half-87654321{{city}}"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut secrets = CallSecrets::default();
        secrets.hide_headers(&headers.into_iter().collect());
        let shown = secrets.redact("tok-12345678 application/json 2024 half-87654321".to_owned());
        assert_eq!(shown, "*** application/json 2024 ***");
    }

    #[test]
    fn redacts_only_credentials_of_a_runs_headers_and_keeps_schema_constraints() {
        let headers = [
            ("Authorization", "Bearer tok-12345678"),
            ("X-Env", "production"),
            ("X-Client", "Acme Assistant"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = CallSecrets::of_headers(&headers.into_iter().collect());
        let shown = secrets.redact("tok-12345678 in production, Assistant".to_owned());
        assert_eq!(shown, "*** in production, Assistant");
        let parameters = serde_json::json!({
            "type": "object", "description": "for tok-12345678", "required": ["tok-12345678"],
            "properties": {"tok-12345678": {"enum": ["tok-12345678"], "examples": ["tok-12345678"]}},
        });
        let tool = secrets.redact_tool(ServerTool {
            action_effects: None,
            name: "t".to_owned(),
            description: "knows tok-12345678".to_owned(),
            parameters,
            output_schema: None,
            effect: runloom_ports::effect::Effect::Read,
            annotations: None,
            policy: None,
            from: 0,
            target: serde_json::Value::Null,
        });
        assert_eq!(tool.description, "knows ***");
        assert_eq!(tool.parameters["description"], "for ***");
        assert_eq!(tool.parameters["required"][0], "tok-12345678");
        let property = &tool.parameters["properties"]["tok-12345678"];
        assert_eq!(property["enum"][0], "tok-12345678");
        assert_eq!(property["examples"][0], "***");
    }
}
