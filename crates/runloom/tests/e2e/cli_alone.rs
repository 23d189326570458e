//! The command line without a server: completions, documents, the doctor and the configuration's check.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::server::{Server, runloom};

fn ended(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = runloom(arguments);
    command.current_dir(folder).envs(variables.iter().copied());
    command.output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn completions_are_valid_scripts() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ended(folder.path(), &["completions", shell], &[]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["runloom", "doctor", "workspace"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        if shell == "bash" {
            let path = folder.path().join("completions.bash");
            std::fs::write(&path, script).unwrap();
            let read = std::process::Command::new("bash")
                .arg("-n")
                .arg(&path)
                .output()
                .unwrap();
            assert!(read.status.success(), "{}", told(&read));
        }
    }
    assert_eq!(
        ended(folder.path(), &["completions", "tcsh"], &[])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn printed_openapi_is_the_served_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::dev(folder.path(), &[]);
    let printed = ended(folder.path(), &["openapi"], &[]).stdout;
    let served = crate::http::request(&server.address, "GET", "/openapi.json", &[], b"").unwrap();
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    assert_eq!(parse(&printed), parse(&served.body));
    let version = ended(folder.path(), &["version", "--json"], &[]).stdout;
    assert_eq!(parse(&version)["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn doctor_finds_exactly_the_problems() {
    let folder = tempfile::tempdir().unwrap();
    let verdict = |check: &str, variables: &[(&str, &str)]| {
        let output = ended(folder.path(), &["doctor", "--json"], variables);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of_check = found["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["check"] == check);
        let verdict = of_check.unwrap_or_else(|| panic!("{found}"))["verdict"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(found["ok"], output.status.success(), "{found}");
        (verdict, output.status.code().unwrap())
    };
    let free = ("RUNLOOM_SERVER__LISTEN", "127.0.0.1:0");
    assert_eq!(verdict("store", &[free]), ("ok".to_owned(), 0));
    let text = ended(folder.path(), &["doctor"], &[free]);
    assert!(
        told(&text)
            .lines()
            .all(|line| line.starts_with("ok") || line.starts_with("warn")),
        "{}",
        told(&text)
    );
    // A running server is recognised; its database is not touched.
    let server = Server::dev(folder.path(), &[]);
    let running = [
        ("RUNLOOM_SERVER__LISTEN", server.address.as_str()),
        ("RUNLOOM_STORE__URL", "sqlite:data/runloom.db"),
    ];
    assert_eq!(verdict("server", &running), ("ok".to_owned(), 0));
    assert_eq!(verdict("store", &running).0, "ok");
    assert_eq!(server.api().get("/models").status, 200);
    // A damaged file is not.
    std::fs::write(folder.path().join("bad.db"), "this is no database at all").unwrap();
    let bad = [free, ("RUNLOOM_STORE__URL", "sqlite:bad.db")];
    assert_eq!(verdict("store", &bad), ("failure".to_owned(), 1));
    let wrong = [("RUNLOOM_SERVER__LISTEN", "nonsense")];
    assert_eq!(verdict("config", &wrong), ("failure".to_owned(), 3));
}

#[test]
fn reports_every_configuration_problem() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[server]\nlistne = \"127.0.0.1:1\"\n\n[runs]\npark_after_ms = \"soon\"\nmax_tool_turns = 0\n\n\
                [[workspaces]]\nslug = \"Bad Slug\"\n[[workspaces.api_keys]]\nname = \"ci\"\nkey_env = \"MISSING_KEY\"\n";
    std::fs::write(folder.path().join("c.toml"), text).unwrap();
    let check = |variables: &[(&str, &str)]| {
        let output = ended(
            folder.path(),
            &["config", "check", "--config", "c.toml"],
            variables,
        );
        (output.status.code().unwrap(), told(&output))
    };
    let (code, shown) = check(&[("RUNLOOM_LIMITS__MAX_BODY_BYTES", "1")]);
    assert_eq!(code, 3);
    for place in [
        "c.toml:2",
        "did you mean `listen`",
        "c.toml:5",
        "c.toml:6",
        "c.toml:9",
        "c.toml:12",
        "MISSING_KEY",
        "RUNLOOM_LIMITS__MAX_BODY_BYTES",
    ] {
        assert!(shown.contains(place), "{place} is not in\n{shown}");
    }
    std::fs::write(folder.path().join("c.toml"), "[server]\nlisten = \n").unwrap();
    assert!(check(&[]).1.contains("c.toml:2"), "{}", check(&[]).1);
    std::fs::write(
        folder.path().join("c.toml"),
        "[server]\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    assert_eq!(check(&[]).0, 0, "{}", check(&[]).1);
    let missing = ended(
        folder.path(),
        &["config", "check", "--config", "none.toml"],
        &[],
    );
    assert_eq!(missing.status.code(), Some(3), "{}", told(&missing));
    assert!(told(&missing).contains("none.toml"));
    // Nothing was started or made by looking.
    assert!(!folder.path().join(".runloom").exists());
}
