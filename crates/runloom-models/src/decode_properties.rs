//! Properties of every decoder, on damaged responses and on noise: it never panics, and its events do not depend on how
//! the bytes are cut into chunks.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::test_support::{DecoderOptions, TestDecoder, apis};

#[test]
fn decoders_never_panic_and_do_not_depend_on_chunks() {
    for api in apis() {
        for (show_thinking, hidden_tool) in [(true, false), (true, true)] {
            let options = DecoderOptions {
                show_thinking,
                hidden_tool,
            };
            check(api, || TestDecoder::new(api, options).unwrap());
        }
    }
}

/// Checks a decoder on the fixtures of its API, whole and damaged, and on noise.
fn check(api: &str, decoder: impl Fn() -> TestDecoder) {
    let fixtures = fixtures(api);
    let config = Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<Damage>()), 0..4);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..12);
    let input = (any::<prop::sample::Index>(), damage, cuts.clone());
    TestRunner::new(config.clone())
        .run(&input, |(which, damage, cuts)| {
            let mut bytes = fixtures[which.index(fixtures.len())].clone();
            for (at, damage) in damage {
                damage.apply(&mut bytes, at);
            }
            prop_assert_eq!(read(decoder(), &bytes, &[]), read(decoder(), &bytes, &cuts));
            Ok(())
        })
        .unwrap();
    let noise = (prop::collection::vec(any::<u8>(), 0..300), cuts);
    TestRunner::new(config)
        .run(&noise, |(bytes, cuts)| {
            prop_assert_eq!(read(decoder(), &bytes, &[]), read(decoder(), &bytes, &cuts));
            Ok(())
        })
        .unwrap();
}

/// How a response can be damaged.
#[derive(Debug, Clone)]
enum Damage {
    Cut,
    Flip(u8),
    Delete(u8),
    Insert(Vec<u8>),
    /// Repeats a piece.
    Repeat(u8),
}

impl Arbitrary for Damage {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop_oneof![
            Just(Self::Cut),
            any::<u8>().prop_map(Self::Flip),
            any::<u8>().prop_map(Self::Delete),
            prop::collection::vec(any::<u8>(), 1..8).prop_map(Self::Insert),
            any::<u8>().prop_map(Self::Repeat),
        ]
        .boxed()
    }
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>, at: prop::sample::Index) {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        let upto = |length: u8| (at + usize::from(length)).min(bytes.len());
        match self {
            Self::Cut => bytes.truncate(at),
            Self::Flip(mask) => bytes[at] ^= mask,
            Self::Delete(length) => {
                bytes.drain(at..upto(length));
            }
            Self::Insert(noise) => {
                bytes.splice(at..at, noise);
            }
            Self::Repeat(length) => {
                let piece = bytes[at..upto(length)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// All events and the outcome, as text.
fn read(mut decoder: TestDecoder, bytes: &[u8], cuts: &[prop::sample::Index]) -> String {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut out = Vec::new();
    let mut outcome = Ok(());
    for pair in cuts.windows(2) {
        outcome = decoder.chunk(&bytes[pair[0]..pair[1]], &mut out);
        if outcome.is_err() || decoder.is_done() {
            break;
        }
    }
    if outcome.is_ok() && !decoder.is_done() {
        outcome = decoder.end(&mut out);
    }
    let dones = out
        .iter()
        .filter(|event| matches!(event, ModelEvent::Done(_)))
        .count();
    assert_eq!(
        dones == 1,
        outcome.is_ok(),
        "one Done, or an error: {out:?} {outcome:?}"
    );
    format!("{out:?} {outcome:?}")
}

fn fixtures(api: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(path.join(api)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "sse"));
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn rejects_a_response_that_never_ends() {
    struct Silent;
    impl StreamDecoder for Silent {
        fn event(
            &mut self,
            _: Option<&str>,
            _: &[u8],
            _: &mut Vec<ModelEvent>,
        ) -> Result<(), ModelError> {
            Ok(())
        }

        fn end(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
            Ok(())
        }
    }
    let mut decoding = Decoding::new(Box::<crate::sse::Sse>::default(), Box::new(Silent));
    let mut out = Vec::new();
    decoding.received = MAX_RESPONSE_BYTES - 10;
    decoding.chunk(b"data: 1\n\n", &mut out).unwrap();
    let error = decoding.chunk(b": 3", &mut out).unwrap_err();
    assert_eq!(error.class, ErrorClass::Server);

    let mut decoding = Decoding::new(Box::<crate::sse::Sse>::default(), Box::new(Silent));
    let error = decoding.end(&mut out).unwrap_err();
    assert_eq!(
        error.class,
        ErrorClass::Server,
        "a response without `Done` is an error"
    );
}
