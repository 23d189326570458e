//! The fuzz targets with a stable compiler: on what is committed as their corpus, and on the fixtures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::targets::{TARGETS, framed, run};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The answers of a folder of fixtures, with room made for the megabyte that one of them stands for.
fn fixtures(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(folder);
    let answers = files(&folder).into_iter();
    answers
        .filter(|path| path.extension().is_some_and(|end| end == "sse"))
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn every_target_has_a_file_and_a_corpus_and_the_other_way_round() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let stems = |folder: &str| -> BTreeSet<String> {
        files(&fuzz().join(folder))
            .iter()
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(stems("fuzz_targets"), targets);
    assert_eq!(stems("corpus"), targets);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in targets {
        let path = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&path), "{name} is not in the manifest");
        assert!(files(&fuzz().join("corpus").join(&name)).len() > 1);
    }
}

#[test]
fn every_target_holds_on_its_corpus() {
    for (name, target) in TARGETS {
        for path in files(&fuzz().join("corpus").join(name)) {
            target(&std::fs::read(path).unwrap());
        }
    }
}

#[test]
fn every_target_holds_on_the_fixtures_also_when_they_break_off() {
    for name in ["anthropic", "gemini", "openai_chat", "openai_responses"] {
        for answer in fixtures(name) {
            run(name, &answer);
            for part in 1..8 {
                run(name, &answer[..answer.len() * part / 8]);
            }
            run("sse", &answer);
        }
    }
    for answer in fixtures("bedrock") {
        let lines: Vec<u8> = answer
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.strip_prefix(b"data: "))
            .flat_map(|line| [line, b"\n"].concat())
            .collect();
        run("bedrock_framed", &lines);
        let frames = framed(&lines);
        run("event_stream", &frames);
        for part in 1..8 {
            run("bedrock", &frames[..frames.len() * part / 8]);
        }
    }
}
