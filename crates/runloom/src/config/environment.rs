//! A copy of the environment variables, so that tests can pass their own.

use std::collections::BTreeMap;

use runloom_ports::secret::Secret;

/// A variable that other programs read as well, and the setting that it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedVariable {
    pub(super) variable: &'static str,
    pub(super) path: [&'static str; 2],
}

const SHARED: [SharedVariable; 3] = [
    SharedVariable {
        variable: "DATABASE_URL",
        path: ["store", "url"],
    },
    SharedVariable {
        variable: "AMQP_URL",
        path: ["fabric", "queue"],
    },
    SharedVariable {
        variable: "REDIS_URL",
        path: ["fabric", "bus"],
    },
];

/// A setting in a variable of its own.
#[derive(Debug)]
pub(super) struct SettingVariable<'a> {
    pub(super) variable: &'a str,
    pub(super) path: Vec<String>,
    pub(super) value: &'a str,
}

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    ignores_shared: bool,
}

impl Environment {
    /// The environment of this process. Variables that are not Unicode are left out.
    #[must_use]
    pub fn of_process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(unicode).collect()
    }

    /// The same, in which `DATABASE_URL`, `AMQP_URL` and `REDIS_URL` set nothing: they may be meant for another
    /// program.
    #[must_use]
    pub fn ignoring_shared(&self) -> Self {
        Self {
            variables: self.variables.clone(),
            ignores_shared: true,
        }
    }

    /// Those of `DATABASE_URL`, `AMQP_URL` and `REDIS_URL` that are set, also as `<NAME>_FILE`.
    pub fn shared(&self) -> impl Iterator<Item = &'static str> {
        let is_set = |name: &str| {
            self.get(name)
                .or(self.get(&format!("{name}_FILE")))
                .is_some()
        };
        let names = SHARED.into_iter().map(|shared| shared.variable);
        names.filter(move |name| is_set(name))
    }

    /// Variables of other programs that are settings here, unless they are ignored.
    pub(super) fn shared_settings(&self) -> impl Iterator<Item = SharedVariable> {
        SHARED.into_iter().filter(|_| !self.ignores_shared)
    }

    /// A variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A secret: the variable itself, or the content of the file that `<name>_FILE` names.
    ///
    /// # Errors
    /// Both are set, or the file cannot be read.
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
    pub(super) fn settings(&self) -> impl Iterator<Item = SettingVariable<'_>> {
        self.variables.iter().filter_map(|(name, value)| {
            let rest = name.strip_prefix("RUNLOOM_")?;
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            (path.len() > 1).then_some(SettingVariable {
                variable: name,
                path,
                value,
            })
        })
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(variables: T) -> Self {
        let variables = variables.into_iter();
        Self {
            variables: variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ignores_shared: false,
        }
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets.
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
