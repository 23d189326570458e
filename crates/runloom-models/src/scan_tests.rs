//! What a scan reads is what the parser reads, and what it gives up is the parser's.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn skips(text: &[u8]) -> bool {
    Scan::whole(text, Scan::skip).is_some()
}

#[test]
fn ordinary_frames_are_read_to_their_end() {
    for text in [
        r#"{"type":"response.output_text.delta","sequence_number":4,"logprobs":[],"delta":"Hi"}"#,
        r#" { "a" : [ 1 , true , false , null , "x" , {} ] , "b" : { "c" : 0 } } "#,
        r#"{"text":"a\n\"\u00e9\\"}"#,
        r#""""#,
    ] {
        assert!(skips(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_is_not_json_is_given_up() {
    for text in [
        "",
        "{",
        "{}}",
        "{]",
        "[1,]",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{a:1}"#,
        r#""a"#,
        r#""\q""#,
        r#""\"#,
        "\"\t\"",
        "01",
        "1-2",
        "tru",
        "nulll",
        "\u{feff}{}",
    ] {
        assert!(!skips(text.as_bytes()), "{text}");
    }
    assert!(!skips(b"\"\xff\""));
}

#[test]
fn nesting_has_an_end() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(skips(deep(8).as_bytes()));
    assert!(!skips(deep(9).as_bytes()));
    assert!(!skips(deep(100_000).as_bytes()));
}

#[test]
fn members_are_told_in_their_order() {
    let mut seen = Vec::new();
    let read = Scan::whole(br#"{"n":7,"s":"a\tb","x":null}"#, |scan| {
        scan.object(|key, scan| {
            seen.push(match key {
                "n" => scan.number()?.to_string(),
                "s" => scan.string()?.into_owned(),
                _ => scan.null().to_string(),
            });
            Some(())
        })
    });
    assert!(read.is_some());
    assert_eq!(seen, ["7", "a\tb", "true"]);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,12}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever is read is JSON: a scan never accepts what the parser refuses.
    #[test]
    fn nothing_is_read_that_the_parser_refuses(
        value in json(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut text = value.to_string().into_bytes();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if skips(&text) {
            prop_assert!(serde_json::from_slice::<Value>(&text).is_ok(), "{text:?}");
        }
    }

    /// A string is read as the parser reads it.
    #[test]
    fn strings_are_read_as_the_parser_reads_them(said in ".*") {
        let text = Value::from(said.as_str()).to_string();
        let read = Scan::whole(text.as_bytes(), |scan| scan.string().map(Cow::into_owned));
        prop_assert_eq!(read, Some(said));
    }

    #[test]
    fn plain_bytes_are_counted_up_to_the_first_special_one(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
        let expected = bytes.iter().position(special).unwrap_or(bytes.len());
        prop_assert_eq!(plain(&bytes), expected);
    }
}
