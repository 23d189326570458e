//! SSE in every split, with every line end, and past its caps.

use proptest::prelude::*;

use super::*;

type Frame = (Option<String>, Vec<u8>);

fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Frame>, ModelError> {
    let mut frames = Vec::new();
    let mut sse = Sse::default();
    let mut keep = |name: Option<&str>, data: &[u8]| {
        frames.push((name.map(str::to_owned), data.to_vec()));
        Ok(())
    };
    for chunk in chunks {
        sse.feed(chunk, &mut keep)?;
    }
    sse.finish(&mut keep)?;
    Ok(frames)
}

fn frame(name: Option<&str>, data: &str) -> Frame {
    (name.map(str::to_owned), data.as_bytes().to_vec())
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

#[test]
fn every_line_ending_names_comments_and_several_data_lines_are_read() {
    let text = b"\xEF\xBB\xBF: hello\nevent: a\ndata: 1\ndata:2\n\ndata: x\r\n\r\nid: 7\rdata\rdata:  y\r\revent: lonely\n\ndata: z\n\n";
    let wanted = vec![
        frame(Some("a"), "1\n2"),
        frame(None, "x"),
        frame(None, "\n y"),
        frame(None, "z"),
    ];
    for size in 1..text.len() {
        assert_eq!(read(text.chunks(size)).unwrap(), wanted, "chunks of {size}");
    }
}

#[test]
fn what_only_looks_like_a_byte_order_mark_is_kept() {
    let text = b"\xEF\xBBdata: 1\n\ndata: 2\n\n";
    for size in 1..text.len() {
        assert_eq!(read(text.chunks(size)).unwrap(), [frame(None, "2")]);
    }
}

#[test]
fn complete_lines_count_at_the_end_and_a_half_line_does_not() {
    assert_eq!(
        read([&b"data: [DONE]\n"[..]]).unwrap(),
        [frame(None, "[DONE]")]
    );
    assert_eq!(read([&b"data: {\"half\":"[..]]).unwrap(), []);
}

#[test]
fn an_event_that_never_ends_is_refused() {
    let block = vec![b'x'; 1024 * 1024];
    let mut sse = Sse::default();
    let mut ignore = |_: Option<&str>, _: &[u8]| Ok(());
    sse.feed(b"data: ", &mut ignore).unwrap();
    let error = (0..9).find_map(|_| sse.feed(&block, &mut ignore).err());
    assert_eq!(error.unwrap().class, ErrorClass::Server);

    let mut sse = Sse::default();
    let lines = format!("data: {}\n", "x".repeat(1_000)).repeat(1_000);
    let error = (0..20).find_map(|_| sse.feed(lines.as_bytes(), &mut ignore).err());
    assert!(
        error.is_some(),
        "many short data lines are one event as well"
    );
}

#[test]
fn a_large_event_is_read_whole() {
    let mut text = b"data: ".to_vec();
    text.extend(vec![b'x'; 1024 * 1024]);
    text.extend(b"\n\n");
    let frames = read(text.chunks(1000)).unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].1.len(), 1024 * 1024);
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_the_chunks(
        lines in prop::collection::vec("(data|event|id|: |)(:| : ?)[a-c]{0,3}(\n|\r|\r\n)|\n|\r\n|\r", 0..24),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let text = lines.concat().into_bytes();
        prop_assert_eq!(read([&text[..]]).unwrap(), read(split(&text, &cuts)).unwrap());
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_read_the_same_in_any_chunks(
        bytes in prop::collection::vec(any::<u8>(), 0..512),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        prop_assert_eq!(read([&bytes[..]]).unwrap(), read(split(&bytes, &cuts)).unwrap());
    }
}
