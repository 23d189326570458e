//! Adding a provider or a route is one folder or file and one line that registers it. These tests find a missing line.

use std::collections::BTreeSet;

use crate::sources::{Source, assert_none, below};

/// The names that are not mentioned as a module (`name::`) in the text.
fn unmentioned<'names>(names: &'names BTreeSet<String>, text: &str) -> Vec<&'names str> {
    names
        .iter()
        .filter(|name| {
            !text.match_indices(&format!("{name}::")).any(|(at, _)| {
                !text[..at].ends_with(|before: char| before == '_' || before.is_alphanumeric())
            })
        })
        .map(String::as_str)
        .collect()
}

/// The folders directly below `root` that have a door.
fn rooms(root: &str, sources: &[Source]) -> BTreeSet<String> {
    sources
        .iter()
        .filter_map(|source| source.path.strip_prefix(root)?.strip_suffix("/mod.rs"))
        .filter(|room| !room.contains('/'))
        .map(str::to_owned)
        .collect()
}

fn text_of<'sources>(path: &str, sources: &'sources [Source]) -> Option<&'sources str> {
    sources
        .iter()
        .find(|source| source.path == path)
        .map(|source| source.text.as_str())
}

#[test]
fn every_provider_folder_is_an_adapter() {
    let root = "crates/runloom-models/src/";
    let sources = below(root);
    let providers = rooms(root, &sources);
    if providers.is_empty() {
        return;
    }
    let door = text_of("crates/runloom-models/src/lib.rs", &sources).unwrap_or_default();
    let table = door.split_once("fn adapter(").map(|(_, table)| table);
    let missing: Vec<String> = unmentioned(&providers, table.unwrap_or_default())
        .into_iter()
        .map(|name| format!("{root}{name}/ has no arm"))
        .collect();
    assert_none(
        "every provider has an arm of `adapter` in crates/runloom-models/src/lib.rs",
        &missing,
    );
}

#[test]
fn every_route_file_is_merged_into_the_router() {
    let root = "crates/runloom-http/src/routes/";
    let sources = below("crates/runloom-http/src");
    let routes: BTreeSet<String> = sources
        .iter()
        .filter_map(|source| source.path.strip_prefix(root))
        .map(|file| file.trim_end_matches("/mod.rs").trim_end_matches(".rs"))
        .filter(|name| *name != "mod" && !name.contains('/') && !name.ends_with("_tests"))
        .map(str::to_owned)
        .collect();
    if routes.is_empty() {
        return;
    }
    let router = text_of("crates/runloom-http/src/routes/mod.rs", &sources).unwrap_or_default();
    let missing: Vec<String> = unmentioned(&routes, router)
        .into_iter()
        .map(|name| format!("{root}{name} is not merged"))
        .collect();
    assert_none(
        "every route file is merged in crates/runloom-http/src/routes/mod.rs",
        &missing,
    );
}

#[test]
fn notices_unregistered_files() {
    let names = BTreeSet::from(["chat".to_owned(), "gemini".to_owned()]);
    let table = "[Row { build: openai_chat::build }, Row { build: gemini::build }]";
    assert_eq!(unmentioned(&names, table), ["chat"]);
}
