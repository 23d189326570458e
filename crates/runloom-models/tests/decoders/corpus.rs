//! The fuzz targets with a stable compiler, on their corpus and on the fixtures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::targets::{BEDROCK_FRAMED, framed, run, targets};

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

/// The responses in a folder of fixtures.
fn fixtures(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(folder);
    let responses = files(&folder).into_iter();
    responses
        .filter(|path| path.extension().is_some_and(|end| end == "sse"))
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn every_target_has_a_corpus() {
    let targets: BTreeSet<&str> = targets().into_iter().collect();
    let corpus = files(&fuzz().join("corpus"));
    let folders = corpus.iter().map(|path| path.file_name().unwrap());
    let folders: BTreeSet<&str> = folders.map(|name| name.to_str().unwrap()).collect();
    assert_eq!(folders, targets);
    for folder in &corpus {
        assert!(files(folder).len() > 1, "{}", folder.display());
    }
}

#[test]
fn every_target_holds_on_its_corpus() {
    for name in targets() {
        for path in files(&fuzz().join("corpus").join(name)) {
            run(name, &std::fs::read(path).unwrap());
        }
    }
}

#[test]
fn every_target_holds_on_the_fixtures_and_their_beginnings() {
    for name in ["anthropic", "gemini", "openai_chat", "openai_responses"] {
        for response in fixtures(name) {
            run(name, &response);
            for part in 1..8 {
                run(name, &response[..response.len() * part / 8]);
            }
            run("sse", &response);
        }
    }
    for response in fixtures("bedrock") {
        let lines: Vec<u8> = response
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.strip_prefix(b"data: "))
            .flat_map(|line| [line, b"\n"].concat())
            .collect();
        run(BEDROCK_FRAMED, &lines);
        let frames = framed(&lines);
        run("aws_event_stream", &frames);
        for part in 1..8 {
            run("bedrock", &frames[..frames.len() * part / 8]);
        }
    }
}
