//! The documents say what the program does.

use std::collections::BTreeSet;
use std::path::Path;

use runloom_protocol::event::EventKind;

use crate::program::{ended, runloom, stderr, stdout};

pub(crate) fn repository_file(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name),
    )
    .unwrap()
}

#[test]
fn every_command_is_in_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let help = stdout(&ended(folder.path(), &["--help"]));
    let document = repository_file("docs/cli.md");
    let commands = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 10, "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(
            document.contains(&format!("`runloom {name}")),
            "docs/cli.md does not know `runloom {name}`"
        );
    }
}

#[test]
fn documents_every_setting() {
    let example = repository_file("runloom.example.toml");
    let document = repository_file("docs/configuration.md");
    let keys = example.lines().filter_map(|line| {
        let (key, _) = line.trim_start_matches("# ").split_once(" = ")?;
        let plain = key
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        plain.then_some(key)
    });
    let keys: Vec<&str> = keys.collect();
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys {
        let known = [format!("`{key}`"), format!(".{key}`")]
            .iter()
            .any(|form| document.contains(form));
        assert!(known, "docs/configuration.md does not know `{key}`");
    }
}

/// The TOML blocks of a document.
fn examples(document: &str) -> Vec<String> {
    let text = repository_file(document);
    let blocks = text.split("```toml\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

#[test]
fn configuration_examples_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let of_providers = examples("docs/configuration.md")
        .into_iter()
        .map(|block| format!("[[workspaces]]\nslug = \"acme\"\n{block}"));
    let of_the_start = examples("README.md").into_iter();
    let mut count = 0;
    for text in of_providers.chain(of_the_start) {
        std::fs::write(folder.path().join("runloom.toml"), &text).unwrap();
        let mut check = runloom(folder.path(), &["config", "check"]);
        for line in text.lines().filter(|line| line.contains("_env = \"")) {
            let variable = line.split('"').nth(1).unwrap();
            check.env(variable, "mantyx_0123456789abcdef0123456789");
        }
        let checked = check.output().unwrap();
        let said = stderr(&checked);
        assert!(
            checked.status.success() && said.is_empty(),
            "{text}\n{said}"
        );
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn documents_every_adapter_key() {
    let document = repository_file("docs/configuration.md");
    let mut keys = BTreeSet::new();
    for adapter in [
        "anthropic",
        "bedrock",
        "openai_responses",
        "openai_chat",
        "gemini",
    ] {
        let source = repository_file(&format!("crates/runloom-models/src/{adapter}/mod.rs"));
        let lists = source.split("check_extra(&[").skip(1);
        let lists = lists.map(|list| list.split(']').next().unwrap());
        let names = lists.flat_map(|list| list.split('"').skip(1).step_by(2));
        keys.extend(names.map(str::to_owned));
    }
    assert!(keys.len() >= 9, "{keys:?}");
    for key in keys {
        assert!(
            document.contains(&format!("`{key}`")),
            "docs/configuration.md does not know `{key}`"
        );
    }
}

#[test]
fn documents_every_event() {
    let kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
    let kinds: BTreeSet<&str> = kinds.collect();
    let document = repository_file("docs/events.md");
    let rows: BTreeSet<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(rows, kinds);
}

#[test]
fn documents_every_route_and_error() {
    let document = repository_file("docs/api.md");
    let api: serde_json::Value =
        serde_json::from_str(&repository_file("crates/runloom-http/openapi.json")).unwrap();
    let paths = api["paths"].as_object().unwrap().iter();
    // The admin API has a document of its own.
    for (path, methods) in paths.filter(|(path, _)| !path.starts_with("/api/admin/")) {
        let path = path.trim_start_matches("/api/v1/workspaces/{slug}");
        let methods = methods.as_object().unwrap().iter();
        for (method, operation) in methods.filter(|(method, _)| *method != "parameters") {
            let row = format!("`{} {path}", method.to_uppercase());
            let known = ["`", "?"].map(|end| document.contains(&format!("{row}{end}")));
            assert!(known.contains(&true), "docs/api.md has no {row}`");
            let parameters = operation["parameters"].as_array();
            for name in parameters
                .into_iter()
                .flatten()
                .filter_map(|parameter| parameter["name"].as_str())
            {
                assert!(
                    document.contains(name),
                    "docs/api.md has no {name} of {row}`"
                );
            }
        }
    }
    for code in runloom_protocol::error::ErrorCode::ALL {
        let code = format!("`{code}`");
        assert!(document.contains(&code), "docs/api.md has no {code}");
    }
}

#[test]
fn tool_examples_are_valid() {
    let document = repository_file("docs/tools.md");
    let mut examples = 0;
    for block in document.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let example: serde_json::Value = serde_json::from_str(text).unwrap();
        let issues = match example["slug"].as_str() {
            Some(slug) => runloom_protocol::validate::tool_definition(&example, slug).err(),
            None => runloom_protocol::validate::create_run(&example).err(),
        };
        assert!(issues.is_none(), "{text}: {issues:?}");
        examples += 1;
    }
    assert!(examples >= 6, "{examples}");
}

#[test]
fn documents_every_field_of_a_run() {
    let document = repository_file("docs/runs.md");
    let api: serde_json::Value =
        serde_json::from_str(&repository_file("crates/runloom-http/openapi.json")).unwrap();
    let fields = |schema: &str, place: &str| -> Vec<String> {
        let properties = &api["components"]["schemas"][schema]["properties"];
        let properties = properties.as_object().unwrap().iter();
        // What the server sets is no field of a request.
        let names = properties.filter(|(_, property)| property.get("readOnly").is_none());
        let names = names.map(|(name, _)| name);
        names.map(|name| format!("| `{place}{name}` |")).collect()
    };
    let mut rows = fields("AgentSpec", "");
    rows.extend(fields("Budgets", "budgets."));
    rows.extend(["| `prompt` |".to_owned(), "| `messages` |".to_owned()]);
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        assert!(document.contains(&row), "docs/runs.md has no row {row}");
    }
    for block in document.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let example: serde_json::Value = serde_json::from_str(text).unwrap();
        let issues = runloom_protocol::validate::create_run(&example).err();
        assert!(issues.is_none(), "{text}: {issues:?}");
        let unread = runloom_protocol::validate::unread_of_run(&example);
        assert!(unread.is_empty(), "{unread:?}");
    }
}

#[test]
fn documents_every_shipped_tool() {
    let document = repository_file("docs/plugins.md");
    let names = runloom_tools::shipped_tools();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        assert!(
            document.contains(&format!("| `{name}` |")),
            "docs/plugins.md does not know `{name}`"
        );
    }
}

#[test]
fn the_documents_plugin_can_be_installed() {
    let document = repository_file("docs/plugins.md");
    let block = |kind: &str| {
        let (_, after) = document.split_once(&format!("```{kind}\n")).unwrap();
        after.split("```").next().unwrap().to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let config = "[[workspaces]]\nslug = \"demo\"\n[[workspaces.plugins]]\npath = \"greet\"\n";
    std::fs::create_dir(folder.path().join("greet")).unwrap();
    for (name, text) in [
        ("runloom.toml", config.to_owned()),
        ("greet/plugin.toml", block("toml")),
        ("greet/hello.js", block("js")),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let checked = ended(folder.path(), &["config", "check"]);
    assert!(checked.status.success(), "{}", stdout(&checked));
}
