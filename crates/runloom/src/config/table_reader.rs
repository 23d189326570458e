//! A table of the configuration: the protocol's typed reader, and the environment that its secrets come from.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use runloom_ports::secret::Secret;
use runloom_protocol::error::Issue;
use runloom_protocol::read::{Fields, Keyword, Node};
use serde_json::{Map, Value};

use super::environment::Environment;

/// What a reading needs besides the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) environment: &'a Environment,
    /// The file's name, as it was given.
    pub(super) file: &'a str,
}

impl Surroundings<'_> {
    /// A path of the file; a relative one is relative to the file's folder.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let folder = std::path::Path::new(self.file).parent();
        folder.unwrap_or(std::path::Path::new("")).join(path)
    }
}

/// A setting that names an environment variable, and the secret in it.
#[derive(Debug)]
pub(super) struct SecretSetting {
    pub(super) variable: Option<String>,
    pub(super) value: Option<Secret>,
}

/// One table. Every key is asked for by name and type; `finish` refuses the others.
pub(super) struct Table<'a> {
    fields: Fields<'a, 'a>,
    pub(super) surroundings: Surroundings<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn new(fields: Fields<'a, 'a>, surroundings: Surroundings<'a>) -> Self {
        Self {
            fields,
            surroundings,
        }
    }

    /// The table under a key; an empty one when it is absent.
    pub(super) fn section(&self, key: &'static str) -> Table<'_> {
        Table::new(self.fields.section(key), self.surroundings)
    }

    /// The table under a key, if given.
    pub(super) fn table(&self, key: &'static str) -> Option<Table<'_>> {
        let fields = self.fields.fields(key)?;
        Some(Table::new(fields, self.surroundings))
    }

    /// What `read` makes of each table of an array.
    pub(super) fn tables<T>(
        &self,
        key: &'static str,
        mut read: impl FnMut(&Table<'_>) -> Option<T>,
    ) -> Vec<T> {
        let Some(node) = self.fields.get(key) else {
            return Vec::new();
        };
        let wanted = "an array of tables";
        if node.expect(wanted, node.value().as_array()).is_none() {
            return Vec::new();
        }
        let entries = self.fields.list(key, usize::MAX, |node| {
            read(&Table::new(node.fields()?, self.surroundings))
        });
        entries.unwrap_or_default()
    }

    /// A string that is not blank, if given.
    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        filled(self.fields.get(key)?)
    }

    /// A string that is not blank; absence is an error.
    pub(super) fn required(&self, key: &'static str) -> Option<String> {
        filled(self.fields.require(key)?)
    }

    /// An integer in a range, if given.
    pub(super) fn integer<T>(&self, key: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<u64> + PartialOrd + fmt::Display,
    {
        self.fields.integer(key, range)
    }

    /// A number that `accepts` allows, if given; `wanted` describes it.
    pub(super) fn number(
        &self,
        key: &'static str,
        wanted: &str,
        accepts: impl FnOnce(f64) -> bool,
    ) -> Option<f64> {
        self.fields.get(key)?.number(wanted, accepts)
    }

    /// `true` or `false`, if given.
    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        self.fields.boolean(key)
    }

    /// Strings; none when the key is absent. A variable has them as a TOML array or separated by commas.
    pub(super) fn texts(&self, key: &'static str) -> Vec<String> {
        let texts = self.fields.strings(key, usize::MAX, usize::MAX);
        texts.unwrap_or_default()
    }

    /// One of the words of an enum, if given.
    pub(super) fn keyword<K: Keyword>(&self, key: &'static str) -> Option<K> {
        self.fields.keyword(key)
    }

    /// One of the words of an enum; absence is an error.
    pub(super) fn required_keyword<K: Keyword>(&self, key: &'static str) -> Option<K> {
        self.fields.require(key)?.keyword()
    }

    /// Every key of a table whose keys are data, with its text.
    pub(super) fn text_entries(&self) -> impl Iterator<Item = (String, String)> {
        self.fields
            .entries()
            .filter_map(|(key, node)| Some((key.to_owned(), node.string()?.to_owned())))
    }

    /// The variable that a key names, and the secret in it or in the file that `<variable>_FILE` names.
    pub(super) fn secret(&self, key: &'static str) -> SecretSetting {
        let variable = self.variable_name(key);
        self.secret_in(key, variable)
    }

    /// The variable that a key names. A text that cannot be the name of a variable may be the secret itself, so it is
    /// refused without being repeated.
    fn variable_name(&self, key: &'static str) -> Option<String> {
        let name = self.text(key)?;
        if !is_variable_name(&name) {
            self.refuse(
                key,
                "must be the name of an environment variable, like OPENAI_API_KEY, and not the secret itself: \
                 put the secret into a variable and name it here",
            );
            return None;
        }
        Some(name)
    }

    /// The same, with the variable of a table that names none.
    pub(super) fn secret_or(&self, key: &'static str, default_variable: &str) -> SecretSetting {
        let variable = match self.has(key) {
            true => self.variable_name(key),
            false => {
                self.fields.accept(&[key]);
                Some(default_variable.to_owned())
            }
        };
        self.secret_in(key, variable)
    }

    /// The same, where a missing key and an unset variable are errors.
    pub(super) fn required_secret(&self, key: &'static str) -> Option<Secret> {
        self.required(key)?;
        let variable = self.variable_name(key)?;
        match self.surroundings.environment.secret(&variable) {
            Ok(Some(secret)) => return Some(secret),
            Ok(None) => self.refuse(
                key,
                format_args!("the environment variable {variable} (or {variable}_FILE) is not set"),
            ),
            Err(message) => self.refuse(key, message),
        }
        None
    }

    fn secret_in(&self, key: &str, variable: Option<String>) -> SecretSetting {
        let value = variable.as_deref().and_then(|name| self.lookup(key, name));
        SecretSetting { variable, value }
    }

    /// The secret in a variable; an error is reported at `key`.
    pub(super) fn lookup(&self, key: &str, variable: &str) -> Option<Secret> {
        match self.surroundings.environment.secret(variable) {
            Ok(secret) => secret,
            Err(message) => {
                self.refuse(key, message);
                None
            }
        }
    }

    /// Every key, as it was written.
    pub(super) fn object(&self) -> &'a Map<String, Value> {
        self.fields.object()
    }

    /// True when the key is given.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.has(key)
    }

    /// Records an error about a key.
    pub(super) fn refuse(&self, key: &str, message: impl fmt::Display) {
        self.fields.refuse(key, message);
    }

    /// Records a warning about a key.
    pub(super) fn warn(&self, key: &str, message: impl fmt::Display) {
        self.fields.warn(key, message);
    }

    /// Records a violation of the API's rules. Its path begins with a key in `camelCase`, which the file may have in
    /// `snake_case`.
    pub(super) fn refuse_issue(&self, issue: &Issue) {
        let first = issue.path.split(['.', '[']).next().unwrap_or_default();
        let snake: String = first
            .chars()
            .flat_map(|letter| {
                let boundary = letter.is_ascii_uppercase().then_some('_');
                boundary.into_iter().chain([letter.to_ascii_lowercase()])
            })
            .collect();
        let key = if self.has(first) { first } else { &snake };
        let path = issue.path.replacen(first, key, 1);
        self.fields.refuse_inside(&path, &issue.message);
    }

    /// Refuses every key that was not asked for, with the nearest known key.
    pub(super) fn finish(&self) {
        self.fields.refuse_unread();
    }

    /// The keys that were not asked for, as they were written. Misspellings of known keys are refused.
    pub(super) fn other_keys(&self) -> Map<String, Value> {
        self.fields.refuse_misspelt();
        let others = self.fields.unread();
        let others = others.filter(|(key, _)| self.fields.misspelling_of(key).is_none());
        others
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    }
}

/// Whether a text looks like the name of a variable and not like a key. Keys of vendors have lower-case letters and
/// digits, dashes, or are long.
fn is_variable_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let has_lower = text.bytes().any(|byte| byte.is_ascii_lowercase());
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let starts_well = !text.starts_with(|first: char| first.is_ascii_digit());
    text.bytes().all(plain)
        && starts_well
        && text.len() <= 64
        && !(has_lower && has_digit && text.len() >= 20)
}

fn filled(node: Node<'_, '_>) -> Option<String> {
    let text = node.string()?;
    if text.trim().is_empty() {
        node.refuse("must not be empty");
        return None;
    }
    Some(text.to_owned())
}
