//! Lone surrogates in JSON strings.
//!
//! A text that was cut by UTF-16 units may end with half of a surrogate pair, such as `\ud83d`. The parser refuses
//! it, so it is replaced: losing one character is better than refusing a long tool result.

/// True when a text was refused because of a lone surrogate.
pub(super) fn is_cause_of(error: &serde_json::Error) -> bool {
    // The parser gives its reason only as text; a test notices when it changes.
    let text = error.to_string();
    ["lone leading surrogate", "unexpected end of hex escape"]
        .iter()
        .any(|reason| text.starts_with(reason))
}

/// Replaces each lone surrogate by `\ufffd`, the replacement character. Offsets stay the same. Outside strings valid
/// JSON has no backslash, so other syntax errors remain.
pub(super) fn replaced(text: &[u8]) -> Vec<u8> {
    let mut replaced = text.to_vec();
    let mut at = 0;
    while let Some(found) = text[at..].iter().position(|&byte| byte == b'\\') {
        at += found;
        at += match escape(&text[at..]) {
            Some(HIGH_FIRST..=HIGH_LAST) if is_low(escape(&text[at + LENGTH..])) => 2 * LENGTH,
            Some(HIGH_FIRST..=LOW_LAST) => {
                replaced[at..at + LENGTH].copy_from_slice(br"\ufffd");
                LENGTH
            }
            Some(_) => LENGTH,
            // A backslash before any other character, including another backslash.
            None => 2.min(text.len() - at),
        };
    }
    replaced
}

const HIGH_FIRST: u16 = 0xd800;
const HIGH_LAST: u16 = 0xdbff;
const LOW_FIRST: u16 = 0xdc00;
const LOW_LAST: u16 = 0xdfff;

/// Bytes of `\uXXXX`.
const LENGTH: usize = 6;

/// The code unit of a `\uXXXX` escape at the beginning of `text`, if there is one.
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
        String::from_utf8(replaced(text.as_bytes())).unwrap()
    }

    #[test]
    fn replaces_lone_surrogates() {
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
            assert!(is_cause_of(&error), "{text}: {error}");
            assert_eq!(repaired(text), expected);
            assert!(serde_json::from_str::<Value>(expected).is_ok());
        }
    }

    #[test]
    fn keeps_everything_else() {
        for text in [
            r#""\ud83d\ude00""#,
            r#""\ud7ff\ue000""#,
            // An escaped backslash, followed by text that only looks like an escape.
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
    fn ignores_other_syntax_errors() {
        for text in [r#""\x""#, "\"a", "{", "nope", r#""\ud8zz""#] {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert!(!is_cause_of(&error), "{text}: {error}");
        }
    }
}
