//! The documents say what the program does.

use std::path::Path;

use crate::program::{ended, stdout};

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
fn every_key_of_the_example_is_in_the_document() {
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
