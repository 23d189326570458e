//! The secrets of one call: read at its beginning, put on the wire, taken out of everything that comes back.

use std::collections::BTreeMap;

use runloom_ports::error::Chain;
use runloom_ports::secret::{MASK, Secret, redact_schema};
use runloom_ports::tools::{Outcome, ServerTool, ToolDefinitions};
use runloom_protocol::definition::template::{self, Piece};

use crate::escape;
use crate::mcp::MAX_REFUSAL_BYTES;

/// Shortest text of a header that is looked for in answers without being a named secret: shorter ones are words.
const LITERAL_MIN_BYTES: usize = 8;

/// The same for a line of the log, where a word too few does no harm.
const LOGGED_MIN_BYTES: usize = 4;

/// Shortest piece of a secret at the end of a cut text that is taken out.
const TAIL_MIN_BYTES: usize = 4;

/// Headers whose literal values are no credentials.
const HARMLESS: [&str; 8] = [
    "accept",
    "accept-language",
    "cache-control",
    "content-type",
    "origin",
    "prefer",
    "referer",
    "user-agent",
];

/// Words in the names of headers that carry credentials. Only those of a client's refs are asked for them: a run's other headers say ordinary
/// things (`X-Env: production`), and taking those out would damage what a peer answers.
const TELLING: [&str; 9] = [
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

/// What one call may use, and must not show.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    known: BTreeMap<String, Secret>,
    /// Every spelling in which a peer could repeat a secret, the longest first.
    spellings: Vec<Secret>,
}

impl Secrets {
    /// Reads the secrets with these names.
    ///
    /// # Errors
    /// In words for a model, when there is none of that name or it cannot be read.
    pub(crate) async fn read<'n>(
        definitions: &dyn ToolDefinitions,
        workspace: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let mut secrets = Self::default();
        for name in names {
            if secrets.known.contains_key(name) {
                continue;
            }
            match definitions.secret(workspace, name).await {
                Ok(Some(secret)) => {
                    secrets.hide(secret.expose());
                    secrets.known.insert(name.to_owned(), secret);
                }
                Ok(None) => {
                    return Err(format!(
                        "the workspace has no secret `{name}`, which this tool needs"
                    ));
                }
                Err(error) => {
                    tracing::warn!(secret = name, error = %Chain(&error), "a tool's secret cannot be read");
                    return Err(format!("the secret `{name}` cannot be read"));
                }
            }
        }
        Ok(secrets)
    }

    /// The credentials among a ref's headers in clear.
    pub(crate) fn of_headers(headers: &BTreeMap<String, String>) -> Self {
        let mut secrets = Self::default();
        secrets.hide_literals(headers, LITERAL_MIN_BYTES, is_telling);
        secrets
    }

    /// What headers in clear hold, also what is too short to be taken out of all that a peer says.
    pub(crate) fn of_headers_for_the_log(headers: &BTreeMap<String, String>) -> Self {
        let mut secrets = Self::default();
        secrets.hide_literals(headers, LOGGED_MIN_BYTES, is_no_harmless);
        secrets
    }

    /// Literal values of an administrator's headers are credentials as well, unless their name says otherwise.
    pub(crate) fn hide_headers(&mut self, headers: &BTreeMap<String, String>) {
        self.hide_literals(headers, LITERAL_MIN_BYTES, is_no_harmless);
    }

    fn hide_literals(
        &mut self,
        headers: &BTreeMap<String, String>,
        min_bytes: usize,
        is_hidden: impl Fn(&str) -> bool,
    ) {
        for (_, value) in headers.iter().filter(|(name, _)| is_hidden(name)) {
            // What is no template is a value in clear that happens to have braces.
            let pieces = template::pieces(value).unwrap_or_else(|_| vec![Piece::Text(value)]);
            for piece in pieces {
                let Piece::Text(text) = piece else { continue };
                // `Bearer abc`: the word before the token is no secret, and peers leave it out.
                let token = text.trim_end().rsplit(' ').next().unwrap_or_default();
                for text in [text.trim(), token] {
                    if text.len() >= min_bytes {
                        self.hide(text);
                    }
                }
            }
        }
    }

    /// A secret in clear.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.known.get(name).map(Secret::expose)
    }

    /// Every secret by its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.known
            .iter()
            .map(|(name, secret)| (name.as_str(), secret.expose()))
    }

    /// A text of the workspace's administrator with its secrets filled in.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        template::fill_secrets(text, |name| self.get(name).map(str::to_owned))
            .map_err(|name| format!("the workspace has no secret `{name}`, which this tool needs"))
    }

    /// Headers of the workspace's administrator with their secrets filled in.
    pub(crate) fn fill_headers(
        &self,
        headers: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let filled = headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.fill(value)?)));
        filled.collect()
    }

    /// A text without the secrets.
    pub(crate) fn redact(&self, text: String) -> String {
        let found = |text: &String, secret: &Secret| text.contains(secret.expose());
        self.spellings.iter().fold(text, |text, secret| {
            if found(&text, secret) {
                secret.redact(&text)
            } else {
                text
            }
        })
    }

    /// What came of a call, without the secrets in its text and its files.
    pub(crate) fn redact_outcome(&self, outcome: Outcome) -> Outcome {
        if self.spellings.is_empty() {
            return outcome;
        }
        outcome.redacted(&|text| self.redact(text.to_owned()))
    }

    /// As [`Self::redact`], for a text that was cut: its end may be the beginning of a secret.
    pub(crate) fn redact_cut(&self, text: String) -> String {
        let mut text = self.redact(text);
        let tail = |secret: &Secret| {
            let clear = secret.expose();
            let longest = clear.len().saturating_sub(1).min(text.len());
            (TAIL_MIN_BYTES..=longest)
                .rev()
                .find(|&length| clear.is_char_boundary(length) && text.ends_with(&clear[..length]))
        };
        if let Some(length) = self.spellings.iter().filter_map(tail).max() {
            text.truncate(text.len() - length);
            text.push_str(MASK);
        }
        text
    }

    /// What a peer said of why something failed; its last words may have been cut in the middle of a secret.
    pub(crate) fn redact_failure(&self, why: String) -> String {
        if why.len() < MAX_REFUSAL_BYTES {
            self.redact(why)
        } else {
            self.redact_cut(why)
        }
    }

    /// What a peer said of its tool, without the secrets that it may repeat.
    pub(crate) fn redact_tool(&self, mut tool: ServerTool) -> ServerTool {
        tool.description = self.redact(tool.description);
        if !self.spellings.is_empty() {
            let redact = |text: &str| self.redact(text.to_owned());
            redact_schema(&mut tool.parameters, &redact);
            if let Some(schema) = &mut tool.output_schema {
                redact_schema(schema, &redact);
            }
        }
        tool
    }

    fn hide(&mut self, clear: &str) {
        let mut spellings = vec![clear.to_owned()];
        spellings.push(escape::json_inside(clear));
        spellings.push(escape::percent(clear));
        spellings.push(escape::percent(clear).replace("%20", "+"));
        spellings.push(escape::markup(clear));
        spellings.retain(|spelling| {
            !self
                .spellings
                .iter()
                .any(|known| known.expose() == spelling)
        });
        spellings.dedup();
        self.spellings
            .extend(spellings.into_iter().map(Secret::new));
        self.spellings
            .sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
    }
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|word| name.contains(word))
}

fn is_no_harmless(name: &str) -> bool {
    !HARMLESS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
impl Secrets {
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let mut secrets = Self::default();
        for (name, clear) in pairs {
            secrets.hide(clear);
            secrets
                .known
                .insert((*name).to_owned(), Secret::new(*clear));
        }
        secrets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_out_in_every_spelling() {
        let secrets = Secrets::of(&[("A", "p\"ss /w&rd")]);
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
    fn the_beginning_of_a_secret_at_a_cut_is_taken_out() {
        let secrets = Secrets::of(&[("A", "canary-1234")]);
        let cut = |text: &str| secrets.redact_cut(text.to_owned());
        assert_eq!(cut("got canary-12"), "got ***");
        assert_eq!(cut("got canary-1234"), "got ***");
        assert_eq!(cut("got can"), "got can");
        assert_eq!(cut(""), "");
    }

    #[test]
    fn literal_headers_are_hidden_unless_they_are_harmless() {
        let headers = [
            ("Authorization", "Bearer tok-12345678"),
            ("Accept", "application/json"),
            ("X-Version", "2024"),
            ("X-Named", "{{secret:A}}"),
            ("X-Mixed", "Key half-87654321{{city}}"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut secrets = Secrets::default();
        secrets.hide_headers(&headers.into_iter().collect());
        let shown = secrets.redact("tok-12345678 application/json 2024 half-87654321".to_owned());
        assert_eq!(shown, "*** application/json 2024 ***");
    }

    #[test]
    fn of_a_runs_headers_only_credentials_are_hidden_and_schemas_demand_what_they_did() {
        let headers = [
            ("Authorization", "Bearer tok-12345678"),
            ("X-Env", "production"),
            ("X-Client", "Acme Assistant"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::of_headers(&headers.into_iter().collect());
        let shown = secrets.redact("tok-12345678 in production, Assistant".to_owned());
        assert_eq!(shown, "*** in production, Assistant");
        let parameters = serde_json::json!({
            "type": "object", "description": "for tok-12345678", "required": ["tok-12345678"],
            "properties": {"tok-12345678": {"enum": ["tok-12345678"], "examples": ["tok-12345678"]}},
        });
        let tool = secrets.redact_tool(ServerTool {
            name: "t".to_owned(),
            description: "knows tok-12345678".to_owned(),
            parameters,
            output_schema: None,
            effect: runloom_ports::effect::Effect::Read,
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
