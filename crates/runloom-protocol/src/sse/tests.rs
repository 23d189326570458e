//! Events in every split, with every line end, and past the limit.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

const MAX_BYTES: usize = 2 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
struct Owned {
    name: Option<String>,
    data: Vec<u8>,
}

fn read<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Owned>, SseError<Infallible>> {
    let mut events = Vec::new();
    let mut parser = SseParser::new(MAX_BYTES);
    let mut keep = |event: SseEvent<'_>| {
        events.push(Owned {
            name: event.name.map(str::to_owned),
            data: event.data.to_vec(),
        });
        Ok(())
    };
    for chunk in chunks {
        parser.push(chunk, &mut keep)?;
    }
    parser.finish(&mut keep)?;
    Ok(events)
}

fn event(name: Option<&str>, data: &str) -> Owned {
    Owned {
        name: name.map(str::to_owned),
        data: data.as_bytes().to_vec(),
    }
}

/// Cuts at the given places, whatever they are.
fn split<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

fn ignore(_: SseEvent<'_>) -> Result<(), Infallible> {
    Ok(())
}

#[test]
fn reads_all_line_ends_names_comments_and_data_lines() {
    let text = b"\xEF\xBB\xBF: hello\nevent: a\ndata: 1\ndata:2\n\ndata: x\r\n\r\nid: 7\rdata\rdata:  y\r\revent: lonely\n\ndata: z\n\n";
    let wanted = vec![
        event(Some("a"), "1\n2"),
        event(None, "x"),
        event(None, "\n y"),
        event(None, "z"),
    ];
    for size in 1..=text.len() {
        assert_eq!(read(text.chunks(size)).unwrap(), wanted, "chunks of {size}");
    }
}

#[test]
fn keeps_bytes_that_only_begin_like_a_bom() {
    let text = b"\xEF\xBBdata: 1\n\ndata: 2\n\n";
    for size in 1..text.len() {
        assert_eq!(read(text.chunks(size)).unwrap(), [event(None, "2")]);
    }
}

#[test]
fn finishes_complete_lines_only() {
    assert_eq!(
        read([&b"data: [DONE]\n"[..]]).unwrap(),
        [event(None, "[DONE]")]
    );
    assert_eq!(read([&b"data: {\"half\":"[..]]).unwrap(), []);
}

#[test]
fn waits_for_the_blank_line() {
    let mut parser = SseParser::new(MAX_BYTES);
    let refuse = |_: SseEvent<'_>| Err(());
    assert_eq!(parser.push(b"data: 1\n", refuse), Ok(()));
    assert_eq!(parser.push(b"\n", refuse), Err(SseError::Receiver(())));
}

#[test]
fn refuses_an_endless_line() {
    let block = vec![b'x'; 1024 * 1024];
    let mut parser = SseParser::new(MAX_BYTES);
    parser.push(b"data: ", ignore).unwrap();
    let error = (0..3).find_map(|_| parser.push(&block, ignore).err());
    assert_eq!(error, Some(SseError::TooLarge(MAX_BYTES)));
}

#[test]
fn refuses_endless_data_lines() {
    let mut parser = SseParser::new(MAX_BYTES);
    let lines = format!("data: {}\n", "x".repeat(1_000)).repeat(1_000);
    let error = (0..4).find_map(|_| parser.push(lines.as_bytes(), ignore).err());
    assert_eq!(error, Some(SseError::TooLarge(MAX_BYTES)));
}

#[test]
fn reads_a_large_event_whole() {
    let mut text = b"data: ".to_vec();
    text.extend(vec![b'x'; 1024 * 1024]);
    text.extend(b"\n\n");
    let events = read(text.chunks(1000)).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data.len(), 1024 * 1024);
}

#[test]
fn passes_on_the_receivers_error() {
    let mut parser = SseParser::new(MAX_BYTES);
    let refused = parser.push(b"data: 1\n\n", |_| Err("no"));
    assert_eq!(refused, Err(SseError::Receiver("no")));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_do_not_depend_on_the_chunks(
        lines in prop::collection::vec("(data|event|id|: |)(:| : ?)[a-c]{0,3}(\n|\r|\r\n)|\n|\r\n|\r", 0..24),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let text = lines.concat().into_bytes();
        prop_assert_eq!(read([&text[..]]).unwrap(), read(split(&text, &cuts)).unwrap());
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..512),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        prop_assert_eq!(read([&bytes[..]]).unwrap(), read(split(&bytes, &cuts)).unwrap());
    }
}
