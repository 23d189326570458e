//! Compaction: when older turns are replaced by a summary, which ones, and what the model reads instead.

use runloom_protocol::event::{ContextCompacted, Event};
use runloom_protocol::outcome::Tokens;
use runloom_protocol::spec::CompactedHistory;

use super::money::sent_bytes;
use super::plan::ModelFacts;
use super::record::{Note, SummaryUsage};
use super::state::RunState;
use super::transcript::Transcript;
use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;

/// Stands before a summary in the conversation.
const SUMMARY: &str =
    "Summary of the earlier part of this conversation, which was too long for the model:";
/// Stands in the place of turns that could not be summarised.
const DROPPED: &str =
    "The earlier part of this conversation was too long for the model and was dropped.";
/// Bytes of text per token, for estimates.
const BYTES_PER_TOKEN: u64 = 4;
/// Most output tokens of a summary.
const SUMMARY_TOKENS: u64 = 2_048;
/// Refusals of one turn by its provider after which the run fails.
const OVERFLOWS_MAX: u32 = 4;

/// Settings of compaction, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPlan {
    /// The share of the context window at which older turns are summarised.
    pub at_fraction: f64,
    /// How many of the last turns are kept.
    pub keep_turns: u32,
    /// The model that writes the summary, when it is not the run's own.
    pub model: Option<ModelFacts>,
    /// What the summary must keep.
    pub instructions: Option<String>,
}

/// A decision to compact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactStep {
    /// Messages at the beginning that are replaced.
    pub cut: usize,
    /// Turns among them.
    pub turns: u32,
    /// Estimated tokens of the request before.
    pub before_tokens: u64,
    /// Most output tokens of the summary.
    pub max_output_tokens: u64,
}

/// The last reported size of the request, by which later ones are estimated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    tokens: u64,
    bytes: u64,
}

/// The outcome of asking for a summary.
#[derive(Debug, Clone)]
pub struct SummaryOutcome {
    /// The summary, or the reason of its failure.
    pub summary: Result<String, String>,
    /// What asking for it used.
    pub usage: SummaryUsage,
}

impl RunState {
    /// Estimated tokens of the next request: from the reported usage where known, otherwise by size.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        let bytes = sent_bytes(self);
        match self.measured {
            Some(known) => {
                known.tokens + bytes.saturating_sub(known.bytes).div_ceil(BYTES_PER_TOKEN)
            }
            None => bytes.div_ceil(BYTES_PER_TOKEN),
        }
    }

    /// Remembers the reported size of the request, with the answer that is now part of the conversation.
    pub(super) fn measure(&mut self, tokens: &Tokens) {
        let total = tokens.input_tokens.saturating_add(tokens.output_tokens);
        if self.plan.compaction.is_some() && tokens.input_tokens > 0 {
            self.measured = Some(Measured {
                tokens: total,
                bytes: sent_bytes(self),
            });
        }
    }

    /// Whether a provider's refusal of the request as too long is answered by compaction.
    #[must_use]
    pub fn can_shrink(&self) -> bool {
        self.overflows < OVERFLOWS_MAX && self.with_overflow().compaction().is_some()
    }

    fn with_overflow(&self) -> Self {
        let mut state = self.clone();
        state.overflows += 1;
        state.is_too_long = true;
        state
    }

    /// The compaction that is due before the next turn.
    #[must_use]
    pub fn compaction(&self) -> Option<CompactStep> {
        let plan = self.plan.compaction.as_ref()?;
        let limit = self.context_limit(plan);
        if !self.is_too_long && limit.is_none() {
            return None;
        }
        let before_tokens = self.context_tokens();
        if !self.is_too_long && limit.is_none_or(|limit| before_tokens <= limit) {
            return None;
        }
        let messages: Vec<&Message> = self.messages.iter().collect();
        let starts = turn_starts(&messages);
        let keep = plan.keep_turns >> self.overflows.saturating_sub(1);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let complete = starts.complete();
        let fits = |keep: usize| {
            let cut = starts.cut(complete - keep, messages.len());
            let kept: u64 = messages[cut..].iter().map(|it| it.bytes() as u64).sum();
            let room = limit.unwrap_or(u64::MAX) / 4 * 3;
            kept.div_ceil(BYTES_PER_TOKEN) + SUMMARY_TOKENS.min(room / 4) <= room
        };
        let most = keep.min(complete.checked_sub(1)?);
        let keep = (0..=most).rev().find(|&keep| fits(keep)).unwrap_or(0);
        let turns = complete - keep;
        Some(CompactStep {
            cut: starts.cut(turns, messages.len()),
            turns: u32::try_from(turns).unwrap_or(u32::MAX),
            before_tokens,
            max_output_tokens: limit
                .map_or(SUMMARY_TOKENS, |it| (it / 4).clamp(64, SUMMARY_TOKENS)),
        })
    }

    /// Tokens above which the conversation is compacted; `None` when the model's window is unknown.
    fn context_limit(&self, plan: &CompactionPlan) -> Option<u64> {
        let model = self.current_model();
        let window = model.context_window?;
        let by_fraction = (window as f64 * plan.at_fraction) as u64;
        let output = model.max_output_tokens.unwrap_or(0);
        Some(by_fraction.min(window.saturating_sub(output).max(window / 4)))
    }

    /// How many messages of the conversation stand before the answers of this run.
    #[must_use]
    pub fn own_messages(&self) -> usize {
        match self.compacted {
            Some(_) => self.first_own,
            None => self.plan.opening.len(),
        }
    }

    /// The model that is asked for summaries.
    #[must_use]
    pub fn summary_model(&self) -> &ModelFacts {
        let own = self.plan.compaction.as_ref();
        own.and_then(|plan| plan.model.as_ref())
            .unwrap_or_else(|| self.current_model())
    }

    pub(super) fn apply_compacted(&mut self, kept: usize, text: &str, usage: &SummaryUsage) {
        let (bytes_before, before) = (sent_bytes(self), self.context_tokens());
        let messages: Vec<Message> = self.messages.iter().cloned().collect();
        let cut = messages.len().saturating_sub(kept);
        let own = self.first_own.min(messages.len());
        let is_user =
            |it: &&Message| matches!(it, Message::User { .. } | Message::UserFiles { .. });
        let kept_user_messages = messages[cut.min(own)..own].iter().filter(is_user).count();
        let mut after = vec![Message::User { text: text.into() }];
        if cut > own {
            // The request of the run stays as it is.
            let request = self.plan.opening.iter().skip(self.plan.history_len);
            after.extend(request.cloned());
        }
        self.first_own = 1 + own.saturating_sub(cut);
        after.extend_from_slice(&messages[cut..]);
        self.messages = Transcript::from(Conversation::from(after));
        self.compacted = Some(CompactedHistory {
            summary: text.to_owned(),
            kept_user_messages,
        });
        self.is_too_long = false;
        self.add_summary_usage(usage);
        let bytes = sent_bytes(self);
        self.measured = Some(Measured {
            tokens: scaled(before, bytes, bytes_before),
            bytes,
        });
    }

    fn add_summary_usage(&mut self, usage: &SummaryUsage) {
        self.tokens.add(&usage.tokens);
        self.lost = self.lost.plus(runloom_ports::store::MicroUsd(usage.lost));
        self.reserved = None;
        if let Some(other) = &usage.other_model {
            self.summary_tokens.add(&usage.tokens);
            let sum = self.summary_pico.zip(other.cost_pico);
            self.summary_pico = sum.map(|(sum, more)| sum + u128::from(more));
        }
    }
}

/// The records of a compaction.
#[must_use]
pub fn compacted(state: &RunState, step: &CompactStep, outcome: SummaryOutcome) -> (Event, Note) {
    let text = match &outcome.summary {
        Ok(summary) => format!("{SUMMARY}\n\n{summary}"),
        Err(_) => match earlier_summary(state) {
            Some(earlier) => format!("{earlier}\n\n{DROPPED}"),
            None => DROPPED.to_owned(),
        },
    };
    let note = Note::Compacted {
        kept: state.messages.len().saturating_sub(step.cut),
        text,
        usage: outcome.usage,
    };
    let mut after = state.clone();
    after.apply(super::Record::Note(note.clone()));
    let event = Event::ContextCompacted(ContextCompacted {
        before_tokens: step.before_tokens,
        after_tokens: after.context_tokens(),
        turns: step.turns,
        model: state.summary_model().model.id.clone(),
        summarised: outcome.summary.is_ok(),
        reason: outcome.summary.err(),
    });
    (event, note)
}

/// The history of a session with its beginning replaced.
#[must_use]
pub fn compacted_history(history: &Conversation, by: &CompactedHistory) -> Conversation {
    let messages: Vec<&Message> = history.iter().collect();
    let is_user = |index: &usize| {
        matches!(
            messages[*index],
            Message::User { .. } | Message::UserFiles { .. }
        )
    };
    let users = (0..messages.len()).rev().filter(is_user);
    let from = match by.kept_user_messages.checked_sub(1) {
        None => messages.len(),
        Some(nth) => users.clone().nth(nth).unwrap_or(0),
    };
    let text = by.summary.as_str().into();
    let kept = messages[from..].iter().map(|&message| message.clone());
    std::iter::once(Message::User { text })
        .chain(kept)
        .collect()
}

/// The summary that the conversation begins with.
fn earlier_summary(state: &RunState) -> Option<&str> {
    match state.messages.iter().next() {
        Some(Message::User { text }) if text.starts_with(SUMMARY) => Some(text),
        _ => None,
    }
}

fn scaled(tokens: u64, part: u64, of: u64) -> u64 {
    let scaled = u128::from(tokens) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Where the turns of a conversation start: a turn is one answer of the model with the messages that led to it and the
/// results of its calls.
struct TurnStarts {
    starts: Vec<usize>,
    /// The last start has no answer yet.
    is_open: bool,
}

impl TurnStarts {
    fn complete(&self) -> usize {
        self.starts.len() - usize::from(self.is_open)
    }

    /// The first message after the given number of turns.
    fn cut(&self, turns: usize, end: usize) -> usize {
        self.starts.get(turns).copied().unwrap_or(end)
    }
}

fn turn_starts(messages: &[&Message]) -> TurnStarts {
    let (mut starts, mut is_open) = (Vec::new(), false);
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant { .. } => {
                if !is_open {
                    starts.push(index);
                }
                is_open = false;
            }
            Message::Tool { .. } => {}
            Message::System { .. } | Message::User { .. } | Message::UserFiles { .. } => {
                if !is_open {
                    starts.push(index);
                }
                is_open = true;
            }
        }
    }
    TurnStarts { starts, is_open }
}
