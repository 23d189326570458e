//! Halves of characters in JSON text.
//!
//! Whoever cuts a text by JavaScript's counting may cut an emoji in two, and some writers of JSON put the half into the text as `\ud83d`. It is no
//! character, so the parser refuses it; but a tool's long result is worth more than its last letter.

/// Whether a text was refused because of half a character.
pub(super) fn are_why(error: &serde_json::Error) -> bool {
    // The parser tells its reasons in words only; a test notices when they change.
    let text = error.to_string();
    ["lone leading surrogate", "unexpected end of hex escape"]
        .iter()
        .any(|reason| text.starts_with(reason))
}

/// The same text with `\ufffd`, the replacement character, for each half that stands alone. Nothing moves, so places in it stay the same.
/// Outside of strings valid JSON has no backslash, so a text that is malformed otherwise stays so.
pub(super) fn mended(text: &[u8]) -> Vec<u8> {
    let mut mended = text.to_vec();
    let mut at = 0;
    while let Some(found) = text[at..].iter().position(|&byte| byte == b'\\') {
        at += found;
        at += match escape(&text[at..]) {
            Some(HIGH_FIRST..=HIGH_LAST) if is_low(escape(&text[at + LENGTH..])) => 2 * LENGTH,
            Some(HIGH_FIRST..=LOW_LAST) => {
                mended[at..at + LENGTH].copy_from_slice(br"\ufffd");
                LENGTH
            }
            Some(_) => LENGTH,
            // A backslash before anything else, also before another backslash.
            None => 2.min(text.len() - at),
        };
    }
    mended
}

const HIGH_FIRST: u16 = 0xd800;
const HIGH_LAST: u16 = 0xdbff;
const LOW_FIRST: u16 = 0xdc00;
const LOW_LAST: u16 = 0xdfff;

/// Bytes of `\uXXXX`.
const LENGTH: usize = 6;

/// What the escape at the beginning stands for, if it is one in hex digits.
fn escape(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.first_chunk::<4>()?;
    let digits = digits.iter().map(|&digit| char::from(digit).to_digit(16));
    let number = digits.collect::<Option<Vec<u32>>>()?;
    let number = number.iter().fold(0, |number, digit| number * 16 + digit);
    u16::try_from(number).ok()
}

fn is_low(half: Option<u16>) -> bool {
    half.is_some_and(|half| (LOW_FIRST..=LOW_LAST).contains(&half))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn repaired(text: &str) -> String {
        String::from_utf8(mended(text.as_bytes())).unwrap()
    }

    #[test]
    fn halves_that_stand_alone_are_replaced() {
        for (text, expected) in [
            (r#""cut \ud83d""#, r#""cut \ufffd""#),
            (r#""\uDE00 cut""#, r#""\ufffd cut""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
            (r#"{"\udbff":"\udfff"}"#, r#"{"\ufffd":"\ufffd"}"#),
        ] {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert!(are_why(&error), "{text}: {error}");
            assert_eq!(repaired(text), expected);
            assert!(serde_json::from_str::<Value>(expected).is_ok());
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in [
            r#""\ud83d\ude00""#,
            r#""\ud7ff\ue000""#,
            // An escaped backslash, and what only looks like an escape behind it.
            r#""\\ud83d""#,
            r#""\\\\ud83d\"\ud83d\ude00""#,
            r#""\ud8"#,
            r#""\ud8zz""#,
            "\"\\",
            "\\u",
            "",
        ] {
            assert_eq!(repaired(text), text);
        }
        assert_eq!(repaired(r#""\\\ud83d""#), r#""\\\ufffd""#);
    }

    #[test]
    fn other_reasons_are_no_reason_to_mend() {
        for text in [r#""\x""#, "\"a", "{", "nope", r#""\ud8zz""#] {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert!(!are_why(&error), "{text}: {error}");
        }
    }
}
