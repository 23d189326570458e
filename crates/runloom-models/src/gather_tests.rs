//! What comes out says the same in fewer chunks; what is unusual comes out as it went in.

use proptest::prelude::*;

use super::*;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: Chunked\r\n\r\n";

/// Feeds the pieces one by one; what comes out of each.
fn gathered(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut gathering = Gathering::default();
    let mut outs: Vec<Vec<u8>> = pieces
        .iter()
        .map(|piece| {
            let mut out = Vec::new();
            gathering.raw.extend_from_slice(piece);
            gathering.digest(&mut out);
            out
        })
        .collect();
    let mut last = Vec::new();
    gathering.finish(&mut last);
    outs.push(last);
    outs
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Reads answers as any reader of HTTP would: their heads and bodies, and what is left.
fn read(mut bytes: &[u8]) -> (Vec<(String, String)>, Vec<u8>) {
    let mut answers = Vec::new();
    'answers: while let Some(end) = memmem::find(bytes, b"\r\n\r\n") {
        let (head, mut rest) = bytes.split_at(end + 4);
        let mut body = Vec::new();
        loop {
            let Some(line) = memmem::find(rest, b"\r\n") else {
                break 'answers;
            };
            let text = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(text, 16).unwrap();
            rest = &rest[line + 2..];
            if rest.len() < size + 2 {
                break 'answers;
            }
            body.extend_from_slice(&rest[..size]);
            assert_eq!(&rest[size..size + 2], b"\r\n");
            rest = &rest[size + 2..];
            if size == 0 {
                break;
            }
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        answers.push((text(head), text(&body)));
        bytes = rest;
    }
    (answers, bytes.to_vec())
}

#[test]
fn chunks_that_came_together_become_one() {
    let answer = [HEAD, &chunk("one "), &chunk("two "), &chunk("three")].concat();
    let outs = gathered(&[answer.as_bytes()]);
    let expected = [HEAD, "0000000d\r\none two three\r\n"].concat();
    assert_eq!(String::from_utf8_lossy(&outs[0]), expected);
}

#[test]
fn nothing_waits_for_more_than_a_chunks_own_line() {
    let outs = gathered(&[
        HEAD.as_bytes(),
        b"5",
        b"\r\nhe",
        b"llo\r",
        b"\n3\r\nyou\r\n",
    ]);
    let outs: Vec<_> = outs
        .iter()
        .map(|out| String::from_utf8_lossy(out))
        .collect();
    assert_eq!(
        outs,
        [
            HEAD,
            "",
            "00000002\r\nhe\r\n",
            "00000003\r\nllo\r\n",
            "00000003\r\nyou\r\n",
            ""
        ]
    );
}

#[test]
fn the_next_answer_of_the_connection_is_gathered_as_well() {
    let answer = [HEAD, &chunk("a"), &chunk("b"), "0\r\n\r\n"].concat();
    let outs = gathered(&[answer.as_bytes(), answer.as_bytes()]);
    assert_eq!(outs[0], outs[1]);
    assert!(String::from_utf8_lossy(&outs[0]).ends_with("00000002\r\nab\r\n0\r\n\r\n"));
}

#[test]
fn what_is_not_an_ordinary_chunked_answer_is_passed_on_as_it_came() {
    let chunks = chunk("a") + &chunk("b") + "0\r\n\r\n";
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding:\r\n chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "hello\r\n\r\n",
    ] {
        let answer = head.to_owned() + &chunks;
        let outs = gathered(&[answer.as_bytes(), answer.as_bytes()]).concat();
        assert_eq!(outs, answer.repeat(2).as_bytes(), "{head}");
    }
    // A head that comes in pieces is rare, and not waited for.
    let outs = gathered(&[
        b"HTTP/1.1 200 OK\r\ntransfer-",
        b"encoding: chunked\r\n\r\n",
        chunks.as_bytes(),
    ]);
    assert_eq!(outs[2], chunks.as_bytes());
}

#[test]
fn from_the_first_unusual_byte_on_everything_is_passed_on_as_it_came() {
    for (usual, unusual) in [
        ("1\r\na\r\n", "2;name=value\r\nbc\r\n0\r\n\r\n"),
        ("1\r\na\r\n", "0\r\ntrailer: x\r\n\r\n"),
        ("1\r\na\r\n", "what\r\n"),
        ("1\r\na\r\n", "\r\n"),
        ("1\r\na\r\n", "fffffffffffff\r\nx"),
        ("1\r\na\r\n", "-1\r\nx"),
        ("1\r\na", "bc\r\n"),
    ] {
        let outs = gathered(&[HEAD.as_bytes(), usual.as_bytes(), unusual.as_bytes()]).concat();
        let out = String::from_utf8_lossy(&outs);
        let kept = unusual.strip_prefix("0\r\n").unwrap_or(unusual);
        assert!(out.ends_with(kept), "{unusual:?}: {out:?}");
    }
}

proptest! {
    /// However an answer is cut into chunks, and they into reads, it says the same.
    #[test]
    fn answers_say_the_same(
        bodies in prop::collection::vec(prop::collection::vec("[a-z\r\n0]{1,40}", 0..20), 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut answer = String::new();
        let mut heads = Vec::new();
        for body in &bodies {
            heads.push(answer.len()..answer.len() + HEAD.len());
            answer += HEAD;
            answer.extend(body.iter().map(|text| chunk(text)));
            answer += "0\r\n\r\n";
        }
        // Heads come whole.
        let whole = |cut: &usize| heads.iter().all(|head| *cut <= head.start || head.end <= *cut);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len())).filter(whole).collect();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &answer.as_bytes()[pair[0]..pair[1]]).collect();
        let out = gathered(&pieces).concat();
        prop_assert_eq!(read(&out), read(answer.as_bytes()));
    }

    #[test]
    fn noise_is_no_reason_to_panic(
        noise in prop::collection::vec("([0-9a-f]{0,9}|\r|\n|\r\n|[a-z ;:]{0,5}|HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n){0,6}", 1..6),
    ) {
        let pieces: Vec<&[u8]> = noise.iter().map(String::as_bytes).collect();
        gathered(&pieces);
    }
}
