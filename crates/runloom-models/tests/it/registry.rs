//! Nobody can forget a line: every folder is registered, every kind is under test, every fixture is there.

use std::collections::BTreeSet;
use std::path::Path;

use runloom_models::{ModelSettings, ProviderSettings};

use crate::{cases, faults, rows};

/// Kinds that need no wire.
const OFFLINE: &[&str] = &["demo"];

#[test]
fn every_provider_folder_has_a_row_in_the_table() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    for entry in std::fs::read_dir(&source).unwrap() {
        let entry = entry.unwrap();
        let folder = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let row = format!("open: {folder}::open");
            assert!(table.contains(&row), "src/{folder} has no row in PROVIDERS");
        }
    }
}

#[test]
fn every_kind_is_under_test() {
    let tested: BTreeSet<&str> = rows().iter().map(|row| row.kind).collect();
    for kind in runloom_models::kinds().filter(|kind| !OFFLINE.contains(kind)) {
        assert!(
            tested.contains(kind),
            "`{kind}` has no row in the table of tests/it/main.rs"
        );
    }
}

#[test]
fn every_tested_folder_has_every_fixture() {
    for row in rows() {
        for name in cases::FIXTURES.iter().chain(faults::STREAMS) {
            assert!(!row.fixture(name).is_empty());
        }
        for name in faults::REFUSALS {
            assert!(!row.refusal(name).is_empty());
        }
    }
}

#[test]
fn an_unknown_kind_names_the_known_ones() {
    let error = runloom_models::open(
        "opnai",
        &ProviderSettings::default(),
        &ModelSettings::default(),
    )
    .unwrap_err();
    let message = error.to_string();
    for kind in runloom_models::kinds() {
        assert!(message.contains(kind), "{message}");
    }
}
