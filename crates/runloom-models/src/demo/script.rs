//! Parses the directives of a prompt: one per line, the first word in any case. Every other line is text.

use std::time::Duration;

use serde_json::{Map, Value};

/// Longest delay of `slow`.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Largest number of `tokens`.
const MAX_TOKENS: u64 = 1_000_000;

/// A parsed prompt.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Script {
    /// The calls of each turn; no batch is empty.
    pub(super) batches: Vec<Batch>,
    /// How often the last batch is made in all.
    pub(super) repeat: Repeat,
    /// What is wrong with each `call` line that cannot be parsed.
    pub(super) problems: Vec<String>,
    /// Text of the final turn.
    pub(super) say: Option<String>,
    /// Number of words of the final turn.
    pub(super) tokens: Option<u64>,
    /// Delay before each delta.
    pub(super) slow: Option<Duration>,
    /// Thinking of every turn.
    pub(super) think: Option<String>,
    /// Failure of every model call.
    pub(super) fail: Option<Fail>,
    /// Tokens of a request above which it is refused as longer than the context window.
    pub(super) window: Option<u64>,
    /// How the final turn ends.
    pub(super) ending: Option<Ending>,
    /// Whether the final turn lists the history.
    pub(super) history: bool,
    /// Whether the final turn lists the files.
    pub(super) files: bool,
    /// The lines that are not directives.
    pub(super) plain: String,
    /// Whether there was a directive.
    pub(super) has_directives: bool,
}

/// The calls of one turn.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Batch {
    /// Text before the calls.
    pub(super) text: Option<String>,
    pub(super) calls: Vec<ScriptedCall>,
}

/// One `call` line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScriptedCall {
    pub(super) name: String,
    pub(super) input: Value,
}

/// How often the last batch is made in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    #[default]
    Once,
    Times(u64),
    Endless,
}

/// How the final turn ends, if not normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Hang,
    Truncate,
    Refuse,
    Malformed,
}

/// `fail CODE [N]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fail {
    pub(super) how: Failure,
    /// Number of attempts that fail; `None` = every one.
    pub(super) attempts: Option<u32>,
}

/// The CODE of `fail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Status(u16),
    Context,
    Timeout,
    Reset,
}

/// Parses a prompt.
pub(super) fn parse(prompt: &str) -> Script {
    let mut script = Script::default();
    let mut batch = Batch::default();
    let mut plain: Vec<&str> = Vec::new();
    for line in prompt.lines() {
        if read_line(line.trim(), &mut script, &mut batch).is_some() {
            script.has_directives = true;
        } else {
            plain.push(line);
        }
    }
    close_batch(&mut script, &mut batch);
    script.plain = plain.join("\n").trim().to_owned();
    script
}

/// `None` if the line is not a directive.
fn read_line(line: &str, script: &mut Script, batch: &mut Batch) -> Option<()> {
    let (word, rest) = match line.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (line, ""),
    };
    match (word.to_ascii_lowercase().as_str(), rest) {
        ("call", rest) => read_call(rest, script, batch)?,
        ("then", "") => close_batch(script, batch),
        ("repeat", "") => script.repeat = Repeat::Endless,
        ("repeat", times) => script.repeat = Repeat::Times(times.parse().ok()?),
        ("say", text) => {
            let said = script.say.get_or_insert_default();
            if !said.is_empty() {
                said.push('\n');
            }
            said.push_str(text);
        }
        ("tokens", count) => script.tokens = Some(count.parse::<u64>().ok()?.min(MAX_TOKENS)),
        ("window", count) => script.window = Some(count.parse().ok()?),
        ("slow", span) => script.slow = Some(read_span(span)?.min(MAX_DELAY)),
        ("hang", "") => script.ending = Some(Ending::Hang),
        ("truncate", "") => script.ending = Some(Ending::Truncate),
        ("refuse", "") => script.ending = Some(Ending::Refuse),
        ("malformed", "") => script.ending = Some(Ending::Malformed),
        ("fail", what) => script.fail = Some(read_fail(what)?),
        ("think", text) if !text.is_empty() => script.think = Some(text.to_owned()),
        ("text", text) if !text.is_empty() => batch.text = Some(text.to_owned()),
        ("history", "") => script.history = true,
        ("files", "") => script.files = true,
        _ => return None,
    }
    Some(())
}

fn read_call(rest: &str, script: &mut Script, batch: &mut Batch) -> Option<()> {
    let end = rest
        .find(|c: char| c.is_whitespace() || c == '{')
        .unwrap_or(rest.len());
    let (name, arguments) = (&rest[..end], rest[end..].trim());
    if name.is_empty() {
        return None;
    }
    let arguments = if arguments.is_empty() {
        "{}"
    } else {
        arguments
    };
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(map) => batch.calls.push(ScriptedCall {
            name: name.to_owned(),
            input: Value::Object(map),
        }),
        Err(error) => script.problems.push(format!(
            "I cannot call `{name}`: its arguments are not a JSON object ({error}). Write: call {name} {{\"key\":\"value\"}}"
        )),
    }
    Some(())
}

fn close_batch(script: &mut Script, batch: &mut Batch) {
    let batch = std::mem::take(batch);
    if !batch.calls.is_empty() {
        script.batches.push(batch);
    }
}

fn read_span(text: &str) -> Option<Duration> {
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return milliseconds.trim().parse().ok().map(Duration::from_millis);
    }
    let seconds: f64 = text.strip_suffix('s')?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn read_fail(what: &str) -> Option<Fail> {
    let mut words = what.split_whitespace();
    let how = match words.next()?.to_ascii_lowercase().as_str() {
        "context" => Failure::Context,
        "timeout" => Failure::Timeout,
        "reset" => Failure::Reset,
        code => Failure::Status(code.parse().ok().filter(|code| (400..600).contains(code))?),
    };
    let attempts = match words.next() {
        None => None,
        Some(count) => Some(count.parse().ok()?),
    };
    match words.next() {
        None => Some(Fail { how, attempts }),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_calls_into_batches() {
        let script = parse(
            "please\ncall a {\"x\": 1}\nCALL b\ntext now c\nthen\nthen\ntext soon\ncall c{\"y\":2}\nrepeat 3",
        );
        let batch = |text: Option<&str>, calls: &[(&str, Value)]| Batch {
            text: text.map(str::to_owned),
            calls: calls
                .iter()
                .map(|(name, input)| ScriptedCall {
                    name: (*name).to_owned(),
                    input: input.clone(),
                })
                .collect(),
        };
        assert_eq!(
            script.batches,
            [
                batch(Some("now c"), &[("a", json!({"x": 1})), ("b", json!({}))]),
                batch(Some("soon"), &[("c", json!({"y": 2}))]),
            ]
        );
        assert_eq!(script.repeat, Repeat::Times(3));
        assert_eq!(script.plain, "please");
    }

    #[test]
    fn explains_arguments_that_are_not_an_object() {
        for line in ["call a {\"x\":", "call a [1]", "call a nonsense"] {
            let script = parse(line);
            assert!(script.batches.is_empty(), "{line}");
            assert!(script.problems[0].contains("`a`"), "{line}");
        }
    }

    #[test]
    fn parses_every_other_directive() {
        let script = parse(
            "Say one\nsay two\ntokens 7\nslow 50ms\nThink hard\nhistory\nfiles\nrepeat\nhang",
        );
        assert_eq!(script.say.as_deref(), Some("one\ntwo"));
        assert_eq!(script.tokens, Some(7));
        assert_eq!(script.slow, Some(Duration::from_millis(50)));
        assert_eq!(script.think.as_deref(), Some("hard"));
        assert!(script.history && script.files && script.has_directives && script.plain.is_empty());
        assert_eq!(
            (script.repeat, script.ending),
            (Repeat::Endless, Some(Ending::Hang))
        );
        assert_eq!(parse("slow 1.5s").slow, Some(Duration::from_millis(1_500)));
        assert_eq!(parse("slow 2h\nslow 90s").slow, Some(MAX_DELAY));
        for (word, ending) in [
            ("truncate", Ending::Truncate),
            ("refuse", Ending::Refuse),
            ("malformed", Ending::Malformed),
        ] {
            assert_eq!(parse(word).ending, Some(ending));
        }
    }

    #[test]
    fn parses_failures_with_and_without_a_count() {
        let fail = |how, attempts| Some(Fail { how, attempts });
        assert_eq!(
            parse("fail 429 2").fail,
            fail(Failure::Status(429), Some(2))
        );
        assert_eq!(parse("FAIL context").fail, fail(Failure::Context, None));
        assert_eq!(
            parse("fail Timeout 1").fail,
            fail(Failure::Timeout, Some(1))
        );
        assert_eq!(parse("fail reset").fail, fail(Failure::Reset, None));
    }

    #[test]
    fn sentences_that_begin_like_directives_are_text() {
        for line in [
            "hang on a second",
            "then what?",
            "fail early, fail often",
            "fail 200",
            "tokens are fun",
            "slow down",
            "repeat after me",
            "call",
            "history is written by the victors",
            "files are fun",
            "",
        ] {
            let script = parse(line);
            assert!(!script.has_directives, "{line}");
            assert_eq!(script.plain, line);
        }
    }
}
