//! What holds for every decoder, checked on damaged answers and on noise: it never panics, and what it says does not depend
//! on the chunks. A folder's tests call [`hold_for`] with its own decoder.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Checks one folder's decoder on its fixtures, damaged and whole, and on noise.
pub(crate) fn hold_for(folder: &str, make: impl Fn() -> Decoding) {
    let fixtures = fixtures(folder);
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
            prop_assert_eq!(read(make(), &bytes, &[]), read(make(), &bytes, &cuts));
            Ok(())
        })
        .unwrap();
    let noise = (prop::collection::vec(any::<u8>(), 0..300), cuts);
    TestRunner::new(config)
        .run(&noise, |(bytes, cuts)| {
            prop_assert_eq!(read(make(), &bytes, &[]), read(make(), &bytes, &cuts));
            Ok(())
        })
        .unwrap();
}

/// What may happen to an answer on its way.
#[derive(Debug, Clone)]
enum Damage {
    Cut,
    Flip(u8),
    Delete(u8),
    Insert(Vec<u8>),
    /// A piece of the answer, once more.
    Again(u8),
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
            any::<u8>().prop_map(Self::Again),
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
            Self::Again(length) => {
                let piece = bytes[at..upto(length)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// Everything that came out, as text, for comparison.
fn read(mut decoding: Decoding, bytes: &[u8], cuts: &[prop::sample::Index]) -> String {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut out = Vec::new();
    let mut outcome = Ok(());
    for pair in cuts.windows(2) {
        outcome = decoding.chunk(&bytes[pair[0]..pair[1]], &mut out);
        if outcome.is_err() || decoding.is_done() {
            break;
        }
    }
    if outcome.is_ok() && !decoding.is_done() {
        outcome = decoding.end(&mut out);
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

fn fixtures(folder: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = std::fs::read_dir(path.join(folder)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "sse"));
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn an_answer_that_never_ends_is_refused() {
    struct Deaf;
    impl StreamDecoder for Deaf {
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
    let mut decoding = Decoding::new(Box::<crate::sse::Sse>::default(), Box::new(Deaf));
    let mut out = Vec::new();
    decoding.received = MAX_RESPONSE_BYTES - 10;
    decoding.chunk(b"data: 1\n\n", &mut out).unwrap();
    let error = decoding.chunk(b": 3", &mut out).unwrap_err();
    assert_eq!(error.class, ErrorClass::Server);

    let mut decoding = Decoding::new(Box::<crate::sse::Sse>::default(), Box::new(Deaf));
    let cut = decoding.end(&mut out).unwrap_err();
    assert_eq!(
        cut.class,
        ErrorClass::Server,
        "no Done is an error even if the decoder says nothing"
    );
}
