//! The environment, taken once, so that tests bring their own.

use std::collections::BTreeMap;

use super::types::Secret;

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process. Variables that are not Unicode are left out.
    #[must_use]
    pub fn of_process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(unicode).collect())
    }

    /// A variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A secret: the variable itself, or the content of the file that `<name>_FILE` names.
    ///
    /// # Errors
    /// A sentence, when both are set or the file cannot be read.
    pub fn secret(&self, name: &str) -> Result<Option<Secret>, String> {
        let file_variable = format!("{name}_FILE");
        match (self.get(name), self.get(&file_variable)) {
            (Some(_), Some(_)) => Err(format!(
                "both {name} and {file_variable} are set; set one of them"
            )),
            (Some(value), None) => Ok(Some(Secret::new(value))),
            (None, None) => Ok(None),
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) if text.trim().is_empty() => {
                    Err(format!("the file {path} of {file_variable} is empty"))
                }
                Ok(text) => Ok(Some(Secret::new(text.trim_end_matches(['\n', '\r'])))),
                Err(error) => Err(format!("{file_variable}: cannot read {path}: {error}")),
            },
        }
    }

    /// Settings among the variables: `RUNLOOM_<SECTION>__<KEY>`, with the rest split at double underscores.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, Vec<String>, &str)> {
        self.0.iter().filter_map(|(name, value)| {
            let rest = name.strip_prefix("RUNLOOM_")?;
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            (path.len() > 1).then_some((name.as_str(), path, value.as_str()))
        })
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(variables: T) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets.
        f.debug_set().entries(self.0.keys()).finish()
    }
}
