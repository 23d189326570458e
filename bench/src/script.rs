//! Scripts of the provider, encoded in the name of the model.
//!
//! `bench-t50-d200-f100-call`: 50 tokens with 200 ms before each, 100 ms before the first byte, and first a call of
//! the tool `lookup` unless the conversation already has its result. `bulk` sends the whole response in one write.
//! `timed` puts the provider's own time to the first token into that token (Responses API only).

use std::time::Duration;

use memchr::memmem;

use crate::scripted_response::{Api, Turn};

/// The tool that a `call` script asks for.
pub(crate) const TOOL: &str = "lookup";

/// Precedes the nanoseconds in the first token of a `timed` script.
pub(crate) const TIME_MARK: &str = "took-";

const MAX_TOKENS: usize = 1_000_000;

/// When a response is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Delivery {
    /// One write per token.
    #[default]
    PerToken,
    /// One write in all.
    Bulk,
}

/// One script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) tokens: usize,
    /// Pause before each token.
    pub(crate) gap: Duration,
    /// Pause before the first byte.
    pub(crate) first_byte: Duration,
    pub(crate) delivery: Delivery,
    /// Whether the script calls the tool before it answers.
    calls_tool: bool,
    /// Whether the first token contains the provider's own time.
    pub(crate) timed: bool,
}

impl Script {
    /// Parses the name of a model; `None` when it is not a script.
    pub(crate) fn parse(model: &str) -> Option<Self> {
        let mut script = Self::default();
        for part in model.strip_prefix("bench-")?.split('-') {
            match part {
                "call" => script.calls_tool = true,
                "bulk" => script.delivery = Delivery::Bulk,
                "timed" => script.timed = true,
                _ => script.set_number(part)?,
            }
        }
        (script.tokens <= MAX_TOKENS).then_some(script)
    }

    fn set_number(&mut self, part: &str) -> Option<()> {
        let (kind, number) = part.split_at_checked(1)?;
        let number: u64 = number.parse().ok()?;
        match kind {
            "t" => self.tokens = usize::try_from(number).ok()?,
            "d" => self.gap = Duration::from_millis(number),
            "f" => self.first_byte = Duration::from_millis(number),
            _ => return None,
        }
        Some(())
    }

    /// What the response to this request body contains. Searches the body instead of parsing a long conversation.
    pub(crate) fn turn(&self, api: Api, body: &[u8]) -> Turn {
        let tool_result: &[u8] = match api {
            Api::Responses => b"\"function_call_output\"",
            Api::Chat => b"\"role\":\"tool\"",
        };
        if self.calls_tool && memmem::find(body, tool_result).is_none() {
            Turn::ToolCall
        } else {
            Turn::Text
        }
    }
}

/// The provider's own time to the token in this event, when a `timed` script sent it.
pub(crate) fn provider_time(data: &[u8]) -> Option<Duration> {
    let start = memmem::find(data, TIME_MARK.as_bytes())? + TIME_MARK.len();
    let digits = data[start..].split(|byte| !byte.is_ascii_digit()).next()?;
    let nanoseconds = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Delivery, Script, provider_time};
    use crate::scripted_response::{Api, ScriptedResponse, Turn, timed_token};

    #[test]
    fn timed_token_carries_the_providers_time() {
        let elapsed = Duration::from_nanos(20_123_456_789);
        assert_eq!(provider_time(&timed_token(elapsed)), Some(elapsed));
        assert_eq!(provider_time(br#"{"text":"every "}"#), None);
        assert!(Script::parse("bench-t5-timed").unwrap().timed);
    }

    #[test]
    fn parses_scripts_and_rejects_other_names() {
        let script = Script::parse("bench-t50-d200-f100-call").unwrap();
        assert_eq!(script.tokens, 50);
        assert_eq!(script.gap, Duration::from_millis(200));
        assert_eq!(script.first_byte, Duration::from_millis(100));
        assert_eq!(script.delivery, Delivery::PerToken);
        for name in ["gpt", "bench-x5", "bench-t", "bench-t99999999"] {
            assert_eq!(Script::parse(name), None, "{name}");
        }
    }

    #[test]
    fn calls_the_tool_until_the_conversation_has_its_result() {
        let script = Script::parse("bench-t3-call").unwrap();
        let results = [
            (Api::Responses, r#"{"type":"function_call_output"}"#),
            (Api::Chat, r#"{"role":"tool"}"#),
        ];
        for (api, result) in results {
            assert_eq!(script.turn(api, b"{}"), Turn::ToolCall);
            assert_eq!(script.turn(api, result.as_bytes()), Turn::Text);
            let tokens = |turn| ScriptedResponse::new(api, "m", turn, &script).tokens.len();
            assert_eq!((tokens(Turn::ToolCall), tokens(Turn::Text)), (0, 3));
        }
    }
}
