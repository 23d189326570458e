//! Shows a run in the terminal: the answer on standard output, everything else on standard error.

use std::io;
use std::time::Duration;

use runloom_client::protocol::event::{
    ApprovalDecided, ApprovalRequested, ContextCompacted, Event, EventKind, ModelFallback,
    Subagent, SubagentPhase, Terminal,
};
use runloom_client::protocol::id::RunId;
use runloom_client::protocol::outcome::{ModelInfo, Tokens};
use runloom_client::{Client, RunEvent, RunStream};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::shutdown::Signals;

/// How long a cancelled run may take to end.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum characters of a tool's arguments or result.
const PREVIEW_CHARS: usize = 160;

/// What Ctrl-C does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// Cancels the run.
    CancelRun,
    /// Stops showing the run.
    Detach,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// Each event as the server sent it, one per line.
    Json,
}

/// Shows a run until its end.
pub(crate) async fn follow(
    client: &Client,
    run: &RunId,
    stream: &mut RunStream,
    form: Form,
    on_interrupt: OnInterrupt,
) -> Result<Exit, Failure> {
    let mut screen = Screen::new(form);
    let mut cancelled = false;
    let mut signals = Signals::interrupt();
    loop {
        let event = tokio::select! {
            event = stream.next() => event?,
            () = signals.next() => {
                screen.end_line();
                if cancelled || on_interrupt == OnInterrupt::Detach {
                    output::note(format!("left; the run goes on: runloom runs tail {run}"));
                    return Ok(Exit::Interrupted);
                }
                cancelled = true;
                output::note(format!("cancelling {run} (Ctrl-C again to leave)"));
                client.cancel_run(run).await?;
                continue;
            }
            () = tokio::time::sleep(CANCEL_PATIENCE), if cancelled => {
                output::note(format!("the cancel of {run} was accepted but has not taken effect yet"));
                return Ok(Exit::Interrupted);
            }
        };
        let Some(event) = event else {
            return Err(Failure::new(
                Exit::Failure,
                "the stream ended without the run's end",
            ));
        };
        if let Err(error) = screen.show(&event) {
            // The reader closed the pipe, so the run is cancelled to save its cost.
            if on_interrupt == OnInterrupt::CancelRun {
                client.cancel_run(run).await?;
            }
            return Err(error.into());
        }
        if event.is_terminal() {
            return Ok(exit_of(&event));
        }
    }
}

fn exit_of(end: &RunEvent) -> Exit {
    let kind = EventKind::parse(&end.kind);
    if kind == Some(EventKind::Result) {
        Exit::Ok
    } else if kind == Some(EventKind::Cancelled) {
        Exit::Interrupted
    } else {
        Exit::RunFailed
    }
}

/// What the current line of the terminal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Empty,
    Answer,
    Thinking,
}

/// The text of the answer.
///
/// A terminal shows a turn as it is written and can mark it as discarded. A file or pipe gets the text of a turn when
/// the turn is complete, and nothing of a turn that restarts.
#[derive(Debug)]
struct Answer {
    live: bool,
    /// Whether the current turn has shown text, so that its message is not repeated.
    shown: bool,
    /// Text of the current turn that was not written yet.
    held: String,
}

impl Answer {
    fn new(live: bool) -> Self {
        Self {
            live,
            shown: false,
            held: String::new(),
        }
    }

    /// Adds a piece of the turn. Returns the text to write now.
    fn piece<'a>(&mut self, text: &'a str) -> &'a str {
        if self.live {
            self.shown = true;
            return text;
        }
        self.held.push_str(text);
        ""
    }

    /// Completes the turn. Returns the text to write now.
    fn complete<'a>(&mut self, text: &'a str) -> &'a str {
        self.held.clear();
        if std::mem::take(&mut self.shown) {
            ""
        } else {
            text
        }
    }

    /// Restarts the turn.
    fn restart(&mut self) {
        self.shown = false;
        self.held.clear();
    }

    /// Ends the run, possibly inside a turn. Returns the remaining text.
    fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

struct Screen {
    form: Form,
    line: Line,
    answer: Answer,
}

impl Screen {
    fn new(form: Form) -> Self {
        Self {
            form,
            line: Line::Empty,
            answer: Answer::new(output::is_watched()),
        }
    }

    fn show(&mut self, event: &RunEvent) -> io::Result<()> {
        if self.form == Form::Json {
            return output::line(event.raw.get());
        }
        match &event.event {
            Some(event) => self.show_event(event),
            None => {
                self.remark(&format!("[{} {}]", event.kind, preview(event.raw.get())));
                Ok(())
            }
        }
    }

    fn show_event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::AssistantDelta(delta) => {
                let text = self.answer.piece(&delta.text);
                self.say(text)?;
            }
            Event::ThinkingDelta(delta) => {
                self.begin(Line::Thinking);
                output::faint(&delta.text);
            }
            Event::AssistantMessage(message) => {
                let text = self.answer.complete(&message.text);
                self.say(text)?;
                self.end_line();
            }
            Event::TurnRestarted(restart) => {
                self.answer.restart();
                self.remark(&format!(
                    "[turn {} begins again: {}; discard what it said]",
                    restart.turn, restart.reason
                ));
            }
            Event::ModelFallback(moved) => self.remark(&taking_over(moved)),
            Event::ToolCall(call) => self.remark(&format!(
                "→ {} {}",
                call.name,
                preview(&call.input.to_string())
            )),
            Event::LocalToolCall(call) => {
                self.remark(&format!(
                    "→ {} {} (waits for its client)",
                    call.name,
                    preview(&call.args.to_string())
                ));
            }
            Event::ToolFiles(found) => {
                let names = found.files.iter().map(|file| file.filename.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                self.remark(&format!("← {} {names}", found.name));
            }
            Event::ToolResult(result) => {
                let sign = if result.ok { "←" } else { "✗" };
                self.remark(&format!(
                    "{sign} {} {}",
                    result.name,
                    preview(&result.result)
                ));
            }
            Event::LocalToolResultIn(result) => {
                let (sign, text) = match (&result.output, &result.error) {
                    (Some(output), _) => ("←", output.as_str()),
                    (None, error) => ("✗", error.as_deref().unwrap_or("no answer")),
                };
                self.remark(&format!("{sign} {} {}", result.tool_use_id, preview(text)));
            }
            Event::ContextCompacted(found) => self.remark(&compaction_line(found)),
            Event::LoopDetected(found) => self.remark(&format!(
                "[the model repeats itself: {} × {}]",
                found.tools.join(", "),
                found.consecutive_count
            )),
            Event::ToolBudgetExceeded(found) => self.remark(&format!(
                "[{} may be called {} times only]",
                found.tool, found.max_calls
            )),
            Event::Subagent(below) => self.show_subagent(below),
            Event::ApprovalRequested(request) => self.remark(&awaiting(request)),
            Event::ApprovalDecided(decided) => self.remark(&decision_line(decided)),
            Event::SubAction(part) => {
                self.remark(&format!("· {} {}", part.name, part.phase.as_str()))
            }
            Event::Started(_) => {}
            Event::Result(result) => self.show_end(Terminal::Result(result))?,
            Event::Error(error) => self.show_end(Terminal::Error(error))?,
            Event::Cancelled(receipt) => self.show_end(Terminal::Cancelled(receipt))?,
        }
        Ok(())
    }

    /// What happens to a run below, indented by its depth.
    fn show_subagent(&mut self, below: &Subagent) {
        let indent = "  ".repeat(usize::try_from(below.depth).unwrap_or(1).min(8));
        let (name, run) = (&below.name, &below.run_id);
        let turns = below.turns.unwrap_or_default();
        self.remark(&match below.phase {
            SubagentPhase::Start => format!("{indent}┌ {name} {run}"),
            SubagentPhase::Paused => {
                let asked = below.approval_ids.join(", ");
                format!("{indent}│ {name} waits for {asked}")
            }
            SubagentPhase::Completed => format!("{indent}└ {name} {turns} turns"),
            SubagentPhase::Errored => {
                let error = below.error.as_deref().unwrap_or_default();
                format!("{indent}✗ {name} {}", preview(error))
            }
        });
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.begin(Line::Answer);
        output::piece(text)
    }

    fn show_end(&mut self, end: Terminal<'_>) -> io::Result<()> {
        let rest = self.answer.end();
        self.say(&rest)?;
        let account = match end {
            Terminal::Result(end) => {
                summary(&end.tokens, end.turns, Some(&end.model), end.cost_usd)
            }
            Terminal::Error(end) => {
                let retry = if end.retryable == Some(true) {
                    " (trying again may help)"
                } else {
                    ""
                };
                self.remark(&format!(
                    "run failed: {}: {}{retry}",
                    end.error_class.as_str(),
                    end.error
                ));
                summary(&end.tokens, end.turns, Some(&end.model), end.cost_usd)
            }
            Terminal::Cancelled(end) => {
                self.remark(&format!("run cancelled: {}", end.reason));
                summary(&end.tokens, end.turns, end.model.as_ref(), end.cost_usd)
            }
        };
        self.remark(&account);
        Ok(())
    }

    fn begin(&mut self, line: Line) {
        if self.line != line {
            self.end_line();
            self.line = line;
        }
    }

    fn end_line(&mut self) {
        match std::mem::replace(&mut self.line, Line::Empty) {
            Line::Empty => {}
            // A closed pipe is noticed at the next piece.
            Line::Answer => drop(output::piece("\n")),
            Line::Thinking => output::faint("\n"),
        }
    }

    fn remark(&mut self, text: &str) {
        self.end_line();
        output::faint(&format!("{text}\n"));
    }
}

/// A decided approval, with the note of who decided it.
fn decision_line(decided: &ApprovalDecided) -> String {
    let note = decided.note.as_deref().map(preview);
    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
    format!("[{} {}{note}]", decided.name, decided.status.as_str())
}

fn compaction_line(found: &ContextCompacted) -> String {
    let what = if found.summarised {
        "summarised"
    } else {
        "dropped"
    };
    format!(
        "[{} older turns {what}: about {} tokens instead of {}]",
        found.turns, found.after_tokens, found.before_tokens
    )
}

/// A call that waits for a person, and how to decide about it.
fn awaiting(request: &ApprovalRequested) -> String {
    let reason = request.reason.as_deref().unwrap_or("a policy asks");
    format!(
        "? {} {} (waits for approval until {}: {reason})\n  runloom approvals approve {id}\n  runloom approvals deny {id} --note …",
        request.name,
        preview(&request.input.to_string()),
        request.expires_at,
        id = request.approval_id,
    )
}

/// `12 tokens in (3 cached), 40 out (8 thinking) · 2 turns · platform:demo · $0.0012`
pub(crate) fn summary(
    tokens: &Tokens,
    turns: u32,
    model: Option<&ModelInfo>,
    cost: Option<f64>,
) -> String {
    let part = |count: u64, what: &str| {
        if count > 0 {
            format!(" ({count} {what})")
        } else {
            String::new()
        }
    };
    let mut text = format!(
        "{} tokens in{}, {} out{} · {turns} {}",
        tokens.input_tokens,
        part(tokens.cached_tokens, "cached"),
        tokens.output_tokens,
        part(tokens.reasoning_tokens, "thinking"),
        if turns == 1 { "turn" } else { "turns" },
    );
    if let Some(model) = model {
        text.push_str(&format!(" · {}", model.id));
    }
    if let Some(cost) = cost {
        text.push_str(&format!(" · ${cost:.4}"));
    }
    text
}

fn taking_over(moved: &ModelFallback) -> String {
    format!(
        "[{} is out of service ({}); {} takes over]",
        moved.primary_model_id,
        moved.error_class.as_str(),
        moved.fallback_model_id
    )
}

/// The beginning of a text on one line, without control characters that could affect the terminal.
pub(crate) fn preview(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(PREVIEW_CHARS)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if text.chars().nth(PREVIEW_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_omits_zeros() {
        let tokens = Tokens {
            input_tokens: 12,
            output_tokens: 4,
            reasoning_tokens: 3,
            ..Tokens::default()
        };
        assert_eq!(
            summary(&tokens, 1, None, None),
            "12 tokens in, 4 out (3 thinking) · 1 turn"
        );
        assert_eq!(
            summary(&tokens, 2, None, Some(0.5)),
            "12 tokens in, 4 out (3 thinking) · 2 turns · $0.5000"
        );
    }

    #[test]
    fn terminal_shows_deltas() {
        let mut answer = Answer::new(true);
        assert_eq!(answer.piece("one "), "one ");
        answer.restart();
        assert_eq!(answer.piece("two"), "two");
        assert_eq!(answer.complete("two"), "");
        assert_eq!(answer.complete("said at once"), "said at once");
        assert_eq!(answer.end(), "");
    }

    #[test]
    fn pipe_gets_completed_turns_only() {
        let mut answer = Answer::new(false);
        assert_eq!(answer.piece("half a tho"), "");
        answer.restart();
        assert_eq!(answer.piece("a whole "), "");
        assert_eq!(answer.piece("thought"), "");
        assert_eq!(answer.complete("a whole thought"), "a whole thought");
        // A run that was stopped inside a turn keeps its text.
        assert_eq!(answer.piece("and th"), "");
        assert_eq!(answer.end(), "and th");
        assert_eq!(answer.end(), "");
    }

    #[test]
    fn previews_are_short_and_escaped() {
        assert_eq!(preview("a\n\u{1b}[2Jb"), "a  [2Jb");
        assert_eq!(preview(&"x".repeat(500)).chars().count(), PREVIEW_CHARS + 1);
    }
}
