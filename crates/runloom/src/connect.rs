//! How client commands find a server: the environment that every SDK reads, else the `runloom dev` of this folder.

use std::time::Duration;

use runloom_client::{AdminClient, Client, Options, RetryPolicy};

use crate::config::Environment;
use crate::data_dir::{DEFAULT, DataDir, DevCredentials};
use crate::exit::{Exit, Failure};

/// Default address of a server.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8787";

/// Short timeouts for interactive use. Streams keep their own.
fn options() -> Options {
    Options {
        retry: RetryPolicy {
            max_retries: 3,
            first_delay: Duration::from_millis(200),
            ..RetryPolicy::default()
        },
        ..Options::default()
    }
}

/// A client of the workspace that the environment names.
pub(crate) fn client(environment: &Environment) -> Result<Client, Failure> {
    let url = environment.get("MANTYX_BASE_URL");
    if let Some(key) = environment.get("MANTYX_API_KEY") {
        let workspace = environment.get("MANTYX_WORKSPACE_SLUG").ok_or_else(|| {
            Failure::new(Exit::Usage, "MANTYX_API_KEY is set but MANTYX_WORKSPACE_SLUG is not: which workspace is it for?")
        })?;
        let url = url.unwrap_or(DEFAULT_URL);
        return Ok(Client::with_options(url, key, workspace, options())?);
    }
    let Some(dev) = dev_server(environment)? else {
        return Err(Failure::new(
            Exit::Usage,
            "no server is known here: set MANTYX_BASE_URL, MANTYX_API_KEY and MANTYX_WORKSPACE_SLUG, \
             or start `runloom dev` in this folder",
        ));
    };
    let workspace = environment
        .get("MANTYX_WORKSPACE_SLUG")
        .unwrap_or(&dev.workspace);
    if let Some(other) = url.filter(|url| url.trim_end_matches('/') != dev.url) {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "MANTYX_BASE_URL is {other}, but the `runloom dev` of this folder is at {}, and its key is sent nowhere \
                 else: set MANTYX_API_KEY and MANTYX_WORKSPACE_SLUG for that server, or unset MANTYX_BASE_URL",
                dev.url
            ),
        ));
    }
    Ok(Client::with_options(
        &dev.url,
        &dev.api_key,
        workspace,
        options(),
    )?)
}

/// A client of the admin API at `url`, or of the `runloom dev` of this folder.
pub(crate) fn admin(url: Option<&str>, environment: &Environment) -> Result<AdminClient, Failure> {
    let token = environment
        .secret("RUNLOOM_ADMIN_TOKEN")
        .map_err(|message| Failure::new(Exit::Usage, message))?;
    let dev = dev_server(environment)?;
    let near = dev.as_ref().map(|dev| dev.url.as_str());
    let url = url.or(near).unwrap_or(DEFAULT_URL);
    if let Some(token) = token {
        return Ok(AdminClient::with_options(url, token.expose(), options())?);
    }
    match &dev {
        Some(dev) if dev.url == url => {
            Ok(AdminClient::with_options(url, &dev.admin_token, options())?)
        }
        _ => Err(Failure::new(
            Exit::Usage,
            "RUNLOOM_ADMIN_TOKEN is not set: it must be the token that the server was started with",
        )),
    }
}

/// The `runloom dev` of this folder, which may have stopped since.
pub(crate) fn dev_server(environment: &Environment) -> Result<Option<DevCredentials>, Failure> {
    let folder = DataDir::new(environment.get("RUNLOOM_DATA_DIR").unwrap_or(DEFAULT));
    let known = folder.credentials()?;
    Ok(known.filter(|dev| !dev.url.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_overrides_the_dev_server() {
        let folder = tempfile::tempdir().unwrap();
        let dev = DevCredentials {
            url: "http://127.0.0.1:1".to_owned(),
            workspace: "demo".to_owned(),
            api_key: "mantyx_dev".to_owned(),
            admin_token: "token".to_owned(),
            default_model: None,
        };
        DataDir::new(folder.path()).keep(&dev).unwrap();
        let path = folder.path().to_str().unwrap();
        let known = |variables: &[(&str, &str)]| {
            let here = [("RUNLOOM_DATA_DIR", path)];
            let environment = variables.iter().chain(&here).copied().collect();
            client(&environment)
                .map(|client| (client.base_url().to_owned(), client.workspace().to_owned()))
        };
        assert_eq!(
            known(&[]).unwrap(),
            ("http://127.0.0.1:1".to_owned(), "demo".to_owned())
        );
        let own = [
            ("MANTYX_API_KEY", "mantyx_x"),
            ("MANTYX_WORKSPACE_SLUG", "acme"),
        ];
        assert_eq!(
            known(&own).unwrap(),
            (DEFAULT_URL.to_owned(), "acme".to_owned())
        );
        assert_eq!(known(&own[..1]).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn never_sends_the_dev_key_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let dev = DevCredentials {
            url: "http://127.0.0.1:1".to_owned(),
            workspace: "demo".to_owned(),
            api_key: "mantyx_dev".to_owned(),
            admin_token: "token".to_owned(),
            default_model: None,
        };
        DataDir::new(folder.path()).keep(&dev).unwrap();
        let path = folder.path().to_str().unwrap();
        let at = |url: &str| {
            let variables = [("RUNLOOM_DATA_DIR", path), ("MANTYX_BASE_URL", url)];
            client(&variables.into_iter().collect())
        };
        let refused = at("http://elsewhere").unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        let message = refused.message.unwrap();
        assert!(message.contains("unset MANTYX_BASE_URL"), "{message}");
        assert!(!message.contains("mantyx_dev"), "{message}");
        assert!(at("http://127.0.0.1:1/").is_ok());
    }

    #[test]
    fn never_sends_the_dev_token_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let environment = [("RUNLOOM_DATA_DIR", folder.path().to_str().unwrap())]
            .into_iter()
            .collect();
        let dev = DevCredentials {
            url: "http://127.0.0.1:1".to_owned(),
            workspace: "demo".to_owned(),
            api_key: "mantyx_dev".to_owned(),
            admin_token: "token".to_owned(),
            default_model: None,
        };
        DataDir::new(folder.path()).keep(&dev).unwrap();
        assert!(admin(None, &environment).is_ok());
        assert_eq!(
            admin(Some("http://elsewhere"), &environment)
                .unwrap_err()
                .exit,
            Exit::Usage
        );
    }
}
