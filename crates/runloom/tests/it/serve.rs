//! `runloom serve`, and what is refused before it starts.

use crate::program::{ended, runloom, stderr, stdout};

#[cfg(unix)]
#[test]
fn serve_prints_its_address_and_stops() {
    use crate::program::Server;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("c.toml"),
        "[server]\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    let mut server = Server::start(runloom(folder.path(), &["serve", "--config", "c.toml"]));
    let line = server.line();
    let port = line
        .strip_prefix("listening on http://127.0.0.1:")
        .unwrap_or_else(|| panic!("{line:?}"));
    assert_ne!(port.parse::<u16>().unwrap(), 0);
    assert_eq!(server.stop(), (String::new(), Some(0)));
}

#[test]
fn example_serves_without_provider_keys() {
    use crate::program::{Server, runloom};
    let folder = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runloom.example.toml");
    let arguments = ["serve", "--config", example, "--listen", "127.0.0.1:0"];
    let mut command = runloom(folder.path(), &arguments);
    command
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY");
    let line = Server::start(command).line();
    assert!(
        line.starts_with("listening on http://127.0.0.1:"),
        "{line:?}"
    );
}

#[test]
fn starts_with_an_agent_without_model_key() {
    use crate::program::Server;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(
        folder.path().join("c.toml"),
        "[platform]\ndemo = true\n[[workspaces]]\nslug = \"acme\"\n\
         [[workspaces.api_keys]]\nkey_env = \"ACME_KEY\"\n\
         [[workspaces.providers]]\nid = \"oa\"\nkind = \"openai\"\napi_key_env = \"NOT_SET\"\nmodels = [{ id = \"gpt-5.5\" }]\n\
         [[workspaces.agents]]\nslug = \"support\"\nsystem_prompt = \"p\"\nmodel = \"oa/gpt-5.5\"\n",
    )
    .unwrap();
    let key = "mantyx_0123456789abcdefghijkl";
    let with_key = |arguments: &[&str]| {
        let mut command = runloom(folder.path(), arguments);
        command.env("ACME_KEY", key).env_remove("NOT_SET");
        command
    };
    let checked = with_key(&["config", "check", "-c", "c.toml"]).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stderr(&checked).contains("NOT_SET"), "{}", stderr(&checked));

    let arguments = ["serve", "-c", "c.toml", "--listen", "127.0.0.1:0"];
    let mut server = Server::start_logging(with_key(&arguments), &log);
    let line = server.line();
    let said = std::fs::read_to_string(&log).unwrap();
    let url = line
        .strip_prefix("listening on ")
        .unwrap_or_else(|| panic!("{said}"));
    assert!(
        said.contains("Runs of the agent are refused until it is offered"),
        "{said}"
    );
    let run = |arguments: &[&str]| {
        let mut command = runloom(folder.path(), arguments);
        command
            .env("MANTYX_BASE_URL", url)
            .env("MANTYX_API_KEY", key)
            .env("MANTYX_WORKSPACE_SLUG", "acme");
        command.output().unwrap()
    };
    let refused = run(&["run", "say hi", "--agent", "support"]);
    assert!(
        stderr(&refused).contains("no model `oa/gpt-5.5`"),
        "{}",
        stderr(&refused)
    );
    let other = [
        "run",
        "say hi",
        "--agent",
        "support",
        "--model",
        "platform:demo",
    ];
    assert_eq!(stdout(&run(&other)), "hi\n", "the agent is kept");
}

#[test]
fn serve_says_when_nobody_can_use_it() {
    use crate::program::Server;
    for (config, advice) in [
        ("", "no workspace is declared: add [[workspaces]]"),
        (
            "[[workspaces]]\nslug = \"acme\"\n",
            "no API key is declared: add [[workspaces.api_keys]]",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(folder.path().join("c.toml"), config).unwrap();
        let arguments = ["serve", "-c", "c.toml", "--listen", "127.0.0.1:0"];
        let mut server = Server::start_logging(runloom(folder.path(), &arguments), &log);
        assert!(server.line().starts_with("listening on"));
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.contains(advice), "{said}");
        assert!(said.contains("RUNLOOM_ADMIN_TOKEN"), "{said}");
    }
}

#[test]
fn reports_an_invalid_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("runloom.toml"),
        "[server]\nlistne = \"x\"\n[log]\nlevel = 1\n",
    )
    .unwrap();
    for command in [
        ["config", "check"].as_slice(),
        &["serve"],
        &["migrate"],
        &["doctor"],
    ] {
        let output = ended(folder.path(), command);
        assert_eq!(output.status.code(), Some(3), "{command:?}");
        let told = stdout(&output) + &stderr(&output);
        assert!(
            told.contains("runloom.toml:2: server.listne: unknown key; did you mean `listen`?"),
            "{told}"
        );
        assert!(told.contains("runloom.toml:4: log.level"), "{told}");
    }
}

#[test]
fn check_and_serve_report_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let place = "postgres://u:sekret@127.0.0.1:1/x";
    for variables in [
        [
            ("RUNLOOM_STORE__URL", place),
            ("RUNLOOM_LOG__LEVEL", "info"),
        ],
        [
            ("RUNLOOM_STORE__URL", "postgres://u:sekret@h:1:2/x"),
            ("RUNLOOM_MASTER_KEY", "sixteen characters at least"),
        ],
        [
            ("RUNLOOM_OUTBOUND__ALLOW_HOSTS", "a:99999"),
            ("RUNLOOM_LOG__LEVEL", "info"),
        ],
    ] {
        let told = |arguments: &[&str]| {
            let mut command = runloom(folder.path(), arguments);
            let output = command.envs(variables).output().unwrap();
            assert_eq!(output.status.code(), Some(3), "{arguments:?} {variables:?}");
            stderr(&output)
        };
        let checked = told(&["config", "check"]);
        assert!(!checked.contains("sekret"), "{checked}");
        assert_eq!(checked, told(&["serve", "--listen", "127.0.0.1:0"]));
    }
}

#[test]
fn check_prints_the_data_path() {
    let folder = tempfile::tempdir().unwrap();
    let check = |url: &str| {
        let mut command = runloom(folder.path(), &["config", "check"]);
        command
            .env("RUNLOOM_STORE__URL", url)
            .env("RUNLOOM_MASTER_KEY", "sixteen characters at least");
        stdout(&command.output().unwrap())
    };
    let said = check("postgres://u:sekret@127.0.0.1:1/x");
    assert!(said.contains("data in postgres"), "{said}");
    assert!(!said.contains("sekret"), "{said}");
    let said = check("sqlite:here.db");
    assert!(said.contains("data in sqlite:here.db"), "{said}");
}

#[test]
fn worker_requires_a_shared_database() {
    let folder = tempfile::tempdir().unwrap();
    let output = ended(folder.path(), &["worker"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("postgres://"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn migrate_and_doctor_agree() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("runloom.toml"),
        "[server]\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    assert!(ended(folder.path(), &["migrate"]).status.success());
    let output = ended(folder.path(), &["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["ok"], true, "{found}");
    let store = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "store");
    assert!(
        store.unwrap()["detail"]
            .as_str()
            .unwrap()
            .contains("is whole"),
        "{found}"
    );
}

#[test]
fn no_command_prints_passwords() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        ["migrate"].as_slice(),
        &["serve", "--listen", "127.0.0.1:0"],
        &["worker"],
        &["doctor"],
        &["doctor", "--json"],
        &["config", "check"],
    ] {
        let mut command = runloom(folder.path(), arguments);
        command
            .env("RUNLOOM_STORE__URL", "postgres://u:sekretpw@127.0.0.1:1/x")
            .env("RUNLOOM_FABRIC__QUEUE", "amqp://u:sekretpw@127.0.0.1:1")
            .env("RUNLOOM_FABRIC__BUS", "redis://u:sekretpw@127.0.0.1:1")
            .env("RUNLOOM_MASTER_KEY", "sixteen characters at least");
        let output = command.output().unwrap();
        let told = stdout(&output) + &stderr(&output);
        assert!(!told.is_empty(), "{arguments:?}");
        assert!(!told.contains("sekretpw"), "{arguments:?}: {told}");
    }
}

#[test]
fn client_explains_a_missing_server() {
    let folder = tempfile::tempdir().unwrap();
    let output = ended(folder.path(), &["run", "hello"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("runloom dev"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn claims_no_run_when_declaring_fails() {
    use crate::program::Server;
    use std::fmt::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let mut config = "[log]\nlevel = \"debug\"\n[platform]\ndemo = true\n".to_owned();
    // Many, so that a worker beside them would have time to look for runs.
    for n in 0..100 {
        write!(config, "[[workspaces]]\nslug = \"w{n}\"\n").unwrap();
    }
    config += "[[workspaces.api_keys]]\nkey_env = \"KEY\"\n";
    let key = "mantyx_0123456789abcdefghijkl";
    let serve = |config: &str| {
        std::fs::write(folder.path().join("c.toml"), config).unwrap();
        let arguments = ["serve", "-c", "c.toml", "--listen", "127.0.0.1:0"];
        let mut command = runloom(folder.path(), &arguments);
        command.env("KEY", key);
        command
    };
    let mut server = Server::start(serve(&config));
    let line = server.line();
    let mut run = runloom(folder.path(), &["run", "hang", "--json"]);
    run.env(
        "MANTYX_BASE_URL",
        line.strip_prefix("listening on ").unwrap(),
    )
    .env("MANTYX_API_KEY", key)
    .env("MANTYX_WORKSPACE_SLUG", "w99");
    let mut run = Server::start(run);
    assert!(run.line().contains("runId"));
    // Both are killed: the run is left as it is.
    drop((run, server));

    let agent = "[[workspaces.agents]]\nslug = \"x\"\nsystem_prompt = \"p\"\n\
                 tools = [{ kind = \"mcp\", name = \"m\", url = \"https://m.example\", headers = { A = \"{{secret:NONE}}\" } }]\n";
    let ended = serve(&format!("{config}{agent}")).output().unwrap();
    let said = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("no secret `NONE`"), "{said}");
    assert!(!said.contains("claimed"), "{said}");
}
