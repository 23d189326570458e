//! Emits a [`PlannedResponse`]: one word per delta, each after its delay.

use futures_util::stream;
use runloom_ports::model::{CallRequest, Done, ModelError, ModelEvent, ModelStream};
use runloom_protocol::outcome::{Tokens, finish_reason};

use super::turn::{OutputText, PlannedResponse, call_chars};
use crate::error;

/// The words of `tokens N`.
const WORDS: [&str; 8] = [
    "one", "small", "word", "after", "another", "makes", "an", "answer",
];

/// The response as a stream.
pub(super) fn play(mut response: PlannedResponse) -> ModelStream {
    let playback = Playback {
        calls: std::mem::take(&mut response.calls).into_iter(),
        response,
        phase: Phase::Begin,
        thinking_sent: 0,
        text_sent: 0,
        words: 0,
        deltas: 0,
        thinking_chars: 0,
        other_chars: 0,
    };
    Box::pin(stream::unfold(playback, Playback::next))
}

enum Phase {
    Begin,
    Think,
    Say,
    Call,
    Count,
    Finish,
    Over,
}

struct Playback {
    response: PlannedResponse,
    calls: std::vec::IntoIter<CallRequest>,
    phase: Phase,
    /// Bytes of the thinking that were sent.
    thinking_sent: usize,
    /// Bytes of the text that were sent.
    text_sent: usize,
    /// Number of generated words that were sent.
    words: u64,
    deltas: u32,
    thinking_chars: u64,
    other_chars: u64,
}

impl Playback {
    async fn next(mut self) -> Option<(Result<ModelEvent, ModelError>, Self)> {
        loop {
            match self.phase {
                Phase::Begin => {
                    self.phase = Phase::Think;
                    return Some((Ok(ModelEvent::Usage(self.usage())), self));
                }
                Phase::Think | Phase::Say => {
                    if self
                        .response
                        .reset_after
                        .is_some_and(|limit| self.deltas >= limit)
                    {
                        self.phase = Phase::Over;
                        return Some((Err(error::incomplete_response()), self));
                    }
                    let Some(delta) = self.next_delta() else {
                        continue;
                    };
                    if let Some(delay) = self.response.delay {
                        tokio::time::sleep(delay).await;
                    }
                    self.deltas += 1;
                    return Some((Ok(delta), self));
                }
                Phase::Call => match self.calls.next() {
                    Some(call) => {
                        self.other_chars += call_chars(&call);
                        return Some((Ok(ModelEvent::Call(call)), self));
                    }
                    None => self.phase = Phase::Count,
                },
                Phase::Count => {
                    self.phase = Phase::Finish;
                    return Some((Ok(ModelEvent::Usage(self.usage())), self));
                }
                Phase::Finish => {
                    self.phase = Phase::Over;
                    let done = Done {
                        finish_reason: self.response.finish.to_owned(),
                        state: None,
                        structured: self.response.structured,
                    };
                    return Some((Ok(ModelEvent::Done(done)), self));
                }
                Phase::Over => return None,
            }
        }
    }

    /// The next piece of thinking or text. If there is none, moves to the next phase.
    fn next_delta(&mut self) -> Option<ModelEvent> {
        let thinks = matches!(self.phase, Phase::Think);
        let piece = if thinks {
            next_word(&self.response.thinking, &mut self.thinking_sent)
        } else {
            match &self.response.text {
                OutputText::Text(text) => next_word(text, &mut self.text_sent),
                OutputText::Words(count) => next_generated_word(*count, &mut self.words),
            }
        };
        let Some(piece) = piece else {
            self.phase = if thinks { Phase::Say } else { Phase::Call };
            return None;
        };
        let chars = piece.chars().count() as u64;
        let after = (self.thinking_chars + self.other_chars + chars).div_ceil(4);
        if self
            .response
            .max_output_tokens
            .is_some_and(|limit| after > limit)
        {
            self.response.finish = finish_reason::MAX_TOKENS;
            self.phase = Phase::Count;
            return None;
        }
        if thinks {
            self.thinking_chars += chars;
            return Some(ModelEvent::Thinking(piece));
        }
        self.other_chars += chars;
        Some(ModelEvent::Text(piece))
    }

    fn usage(&self) -> Tokens {
        Tokens {
            input_tokens: self.response.input_chars.div_ceil(4),
            cached_tokens: 0,
            reasoning_tokens: self.thinking_chars.div_ceil(4),
            output_tokens: (self.thinking_chars + self.other_chars).div_ceil(4),
        }
    }
}

/// The next word and the white space after it.
fn next_word(text: &str, from: &mut usize) -> Option<String> {
    let rest = text.get(*from..).filter(|rest| !rest.is_empty())?;
    let mut in_space = false;
    let end = rest
        .char_indices()
        .find(|(at, c)| {
            let next_begins = in_space && !c.is_whitespace();
            in_space = c.is_whitespace() && *at > 0;
            next_begins
        })
        .map_or(rest.len(), |(at, _)| at);
    *from += end;
    Some(rest[..end].to_owned())
}

fn next_generated_word(count: u64, made: &mut u64) -> Option<String> {
    if *made >= count {
        return None;
    }
    let word = WORDS[usize::try_from(*made % WORDS.len() as u64).unwrap_or(0)];
    *made += 1;
    let space = if *made < count { " " } else { "" };
    Some(format!("{word}{space}"))
}
