//! Toolsets of the configuration file.

use super::*;

fn check(toolset: &str) -> Result<Config, Vec<String>> {
    let text = format!("[[workspaces]]\nslug = \"acme\"\n[[workspaces.toolsets]]\n{toolset}");
    let parsed = parse(&text, "f.toml", &Environment::default());
    parsed.map_err(|invalid| invalid.problems.iter().map(ToString::to_string).collect())
}

#[test]
fn processes_are_kept_apart_from_documents() {
    let config = check(
        "slug = \"files\"\ntransport = \"stdio\"\ncommand = \"npx\"\nargs = [\"-y\"]\nidle_close_ms = 5000\n\
         env = { KEY = \"{{secret:K}}\" }\ntool_settings = { write_file = { effect = \"once\" } }\n\
         [[workspaces.toolsets]]\nslug = \"docs\"\ntransport = \"sse\"\nserver_url = \"https://d.example/sse\"",
    )
    .unwrap();
    let workspace = &config.workspaces[0];
    let toolset = &workspace.process_toolsets[0];
    assert_eq!(toolset.slug, "files");
    assert_eq!(toolset.definition.idle_close_ms(), 5000);
    assert!(toolset.definition.tool_settings.contains_key("write_file"));
    assert!(!format!("{workspace:?}").contains("secret:K"));
    assert_eq!(workspace.toolsets[0].slug, "docs");
}

#[test]
fn every_mistake_is_named_with_its_line() {
    for (toolset, expected) in [
        ("transport = \"stdio\"\ncommand = \"x\"", "slug"),
        ("slug = \"a\"", "transport"),
        ("slug = \"a\"\ntransport = \"stdio\"", "command"),
        (
            "slug = \"a\"\ntransport = \"stdio\"\ncommand = \"x\"\nserver_url = \"https://a.example/\"",
            "server_url",
        ),
        (
            "slug = \"a\"\ntransport = \"sse\"\nserver_url = \"https://a.example/\"\ncommand = \"x\"",
            "command",
        ),
        (
            "slug = \"a\"\ntransport = \"sse\"\nserver_url = \"https://a.example/\"\ntimeout = 3",
            "timeout",
        ),
    ] {
        let problems = check(toolset).unwrap_err();
        assert_eq!(problems.len(), 1, "{toolset}: {problems:?}");
        assert!(
            problems[0].contains(&format!("workspaces[0].toolsets[0].{expected}")),
            "{problems:?}"
        );
    }
}
