//! Completeness: every folder is registered, every kind is tested, every fixture exists.

use std::collections::HashSet;
use std::path::Path;

use runloom_protocol::definition::ProviderKind;

use crate::{cases, faults, rows};

/// Kinds without a wire format.
const OFFLINE: &[ProviderKind] = &[ProviderKind::Demo];

#[test]
fn every_provider_folder_has_an_adapter() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    for entry in std::fs::read_dir(&source).unwrap() {
        let entry = entry.unwrap();
        let folder = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let row = format!("open: {folder}::open,");
            assert!(table.contains(&row), "src/{folder} has no arm in `adapter`");
        }
    }
}

#[test]
fn every_kind_is_tested() {
    let tested: HashSet<ProviderKind> = rows().iter().map(|row| row.kind).collect();
    for kind in ProviderKind::ALL
        .iter()
        .filter(|kind| !OFFLINE.contains(kind))
    {
        assert!(
            tested.contains(kind),
            "{kind:?} has no row in the table of tests/it/main.rs"
        );
    }
}

#[test]
fn every_api_has_every_fixture() {
    for row in rows() {
        for name in cases::FIXTURES.iter().chain(faults::STREAMS) {
            assert!(!row.fixture(name).is_empty());
        }
        for name in faults::ERROR_BODIES {
            assert!(!row.error_body(name).is_empty());
        }
    }
}
