//! The configuration of a server, with checks that other commands do not need.

use super::models;
use crate::config::{self, Config, Environment, Invalid, Problem, Source};

/// Reads the configuration of a server. `serve`, `config check` and `doctor` all use it, so that they accept the same
/// files.
///
/// # Errors
/// Every problem of the file and of the environment, at once.
pub(crate) fn load(source: &Source, environment: &Environment) -> Result<Config, Invalid> {
    let config = config::load(source, environment)?;
    let problems = problems(&config);
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(Invalid { problems })
    }
}

fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    if config.server.master_key.is_none() && config.store.postgres.is_some() {
        problems.push(Problem {
            place: format!("environment variable {}", config.server.master_key_env),
            path: "server.master_key_env".to_owned(),
            message: "is not set: processes that share a database need the same master key, for example from \
                      `openssl rand -hex 32`"
                .to_owned(),
        });
    }
    problems.extend(models::problem(config).map(|error| Problem {
        place: "configuration".to_owned(),
        path: "providers".to_owned(),
        message: format!("{error:#}"),
    }));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let environment: Environment = variables.iter().copied().collect();
        let config = config::parse(text, "f.toml", &environment).unwrap();
        problems(&config).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn shared_database_requires_a_master_key() {
        let text = "[store]\nurl = \"postgres://u:p@h/d\"";
        let told = refused(text, &[]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("RUNLOOM_MASTER_KEY"), "{told:?}");
        let key = ("RUNLOOM_MASTER_KEY", "sixteen characters at least");
        assert!(refused(text, &[key]).is_empty());
        assert!(refused("", &[]).is_empty());
    }

    #[test]
    fn names_an_unusable_provider() {
        let text = "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"az\"\nkind = \"azure-openai\"\n\
                    api_key_env = \"K\"\nmodels = [{ id = \"m\" }]";
        let told = refused(text, &[("K", "key")]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("workspace a, provider az"), "{told:?}");
    }
}
