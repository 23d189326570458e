//! Server tools: the intent is durable before a call starts, and its outcome before anything that depends on it.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use runloom_protocol::attachment::Attachment;
use runloom_protocol::event::{Event, FileInfo, ToolCall, ToolFiles, ToolResult};
use runloom_protocol::limits::TOOL_FILES_MAX_BYTES;
use runloom_protocol::outcome::RunCancelled;
use tracing::debug;

use super::interrupt::TurnInterrupt;
use super::{Abandon, Driver, Left, toolset};
use crate::metrics::METRICS;
use crate::run::{Note, ServerCall, Spent};
use runloom_ports::crash;
use runloom_ports::file::FileReader;
use runloom_ports::tools::{Invocation, Outcome};
use runloom_protocol::limits::TOOL_RESULT_SHOWN_BYTES;

/// Time that cancelled calls get to end.
const WIND_DOWN: Duration = Duration::from_millis(500);
/// Longest summary of a result, in characters.
const SUMMARY_CHARS: usize = 160;

impl Driver {
    /// Lists the tools of the server-resolved refs. A peer that is unavailable gives a stub.
    pub(super) async fn resolve_tools(&mut self) -> Result<Option<Left>, Abandon> {
        // Peers may be slow; subscribers see meanwhile that the run has started.
        self.journal.flush().await?;
        let (host, context) = (Arc::clone(&self.parts.tools), self.context.clone());
        let schemas = Arc::clone(&self.state.plan.schemas);
        let mut resolving = pin!(async {
            let tools = host.resolve(&context, &context.refs).await;
            toolset::usable(tools, &schemas).await
        });
        let tools = loop {
            tokio::select! {
                tools = &mut resolving => break tools,
                interrupt = self.interrupt() => match interrupt? {
                    None => {}
                    Some(TurnInterrupt::Stop) => return self.release().await.map(Some),
                    Some(TurnInterrupt::OutOfTime) => {
                        return self.fail(self.out_of_time(), Spent::default()).await.map(Some);
                    }
                    Some(TurnInterrupt::Cancel(receipt)) => {
                        return self.cancel(*receipt, Spent::default()).await.map(Some);
                    }
                },
            }
        };
        debug!(tools = tools.len(), "tools resolved");
        self.note(Note::Toolset { tools });
        Ok(None)
    }

    /// Executes calls concurrently and records each outcome when it comes.
    pub(super) async fn execute(
        &mut self,
        calls: Vec<ServerCall>,
    ) -> Result<Option<Left>, Abandon> {
        for call in calls.iter().filter(|call| !call.again) {
            self.record(Event::ToolCall(ToolCall {
                tool_use_id: call.id.clone(),
                name: call.tool.name.clone(),
                input: call.input.clone(),
            }))?;
        }
        self.journal.flush().await?;
        crash::point("before_tool");
        let cancel = self.parts.shutdown.interrupt_token();
        let mut running: FuturesUnordered<_> = calls
            .into_iter()
            .map(|call| {
                let (host, context, cancel) = (
                    Arc::clone(&self.parts.tools),
                    self.context.clone(),
                    cancel.clone(),
                );
                let reader = Arc::clone(&self.parts.files);
                let trace = self.tracing.as_ref().map(|tracing| tracing.call(&call.id));
                async move {
                    let invocation = Invocation {
                        tool_use_id: call.id.clone(),
                        input: call.input,
                        trace,
                    };
                    let began = Instant::now();
                    let outcome = host.call(&context, &call.tool, invocation, cancel).await;
                    let took = began.elapsed();
                    count(&outcome, took);
                    let files = files_of(&outcome, &*reader).await;
                    let ended = EndedCall {
                        id: call.id,
                        name: call.tool.name.clone(),
                        outcome,
                        took: Some(took),
                    };
                    (ended, files)
                }
            })
            .collect();
        while !running.is_empty() {
            tokio::select! {
                done = running.next() => if let Some((ended, files)) = done {
                    // The shutdown has cancelled the call: what it returned is not its outcome.
                    if self.parts.shutdown.is_interrupted() {
                        return self.release().await.map(Some);
                    }
                    crash::point("tool_done");
                    self.record_files(&ended.id, files)?;
                    self.record_outcome(ended)?;
                    // The last outcome is written while the model is called.
                    if !running.is_empty() {
                        self.journal.flush().await?;
                    }
                },
                interrupt = self.interrupt() => match interrupt? {
                    None => {}
                    Some(TurnInterrupt::Stop) => return self.release().await.map(Some),
                    Some(TurnInterrupt::OutOfTime) => {
                        cancel.cancel();
                        wind_down(running).await;
                        return self.fail(self.out_of_time(), Spent::default()).await.map(Some);
                    }
                    Some(TurnInterrupt::Cancel(receipt)) => {
                        cancel.cancel();
                        wind_down(running).await;
                        return self.cancel(self.with_running(*receipt), Spent::default()).await.map(Some);
                    }
                },
            }
        }
        Ok(None)
    }

    /// Adds the running server tools to what a cancel interrupted.
    fn with_running(&self, mut receipt: RunCancelled) -> RunCancelled {
        let running = self
            .state
            .calls
            .iter()
            .filter(|call| call.state == crate::run::CallState::Called);
        receipt
            .interrupted
            .extend(running.map(|call| call.name.clone()));
        receipt
    }

    /// Records the files of a call before its result. The event has their names and sizes; a private note has their
    /// content, for the model.
    pub(super) fn record_files(
        &mut self,
        tool_use_id: &str,
        files: Vec<Attachment>,
    ) -> Result<(), Abandon> {
        let calls = &self.state.calls;
        let Some(call) = calls.iter().find(|call| call.id == tool_use_id) else {
            return Ok(());
        };
        if files.is_empty() {
            return Ok(());
        }
        let name = call.name.clone();
        let files = self.state.tool_files.within_bounds(files);
        let shown = files.iter().map(|file| FileInfo {
            filename: file.name().to_owned(),
            mime_type: file.mime_type.clone().unwrap_or_default(),
            size_bytes: file.size.unwrap_or_default(),
        });
        let files_event = ToolFiles {
            name,
            files: shown.collect(),
        };
        self.record(Event::ToolFiles(files_event))?;
        self.note(Note::Files {
            tool_use_id: tool_use_id.to_owned(),
            files,
        });
        Ok(())
    }

    pub(super) fn record_outcome(&mut self, ended: EndedCall) -> Result<(), Abandon> {
        let EndedCall {
            id: tool_use_id,
            name,
            outcome,
            took,
        } = ended;
        let shown = cut(&outcome.content, TOOL_RESULT_SHOWN_BYTES);
        let (summary, metadata) = match outcome.report {
            None => (summary_of(&outcome.content), None),
            Some(report) => {
                self.note(Note::UiHints {
                    tool_use_id: tool_use_id.clone(),
                    hints: report.ui_hints,
                });
                (report.summary, Some(report.metadata))
            }
        };
        let result = if shown.len() < outcome.content.len() {
            format!(
                "{shown}\n… cut for display: {} of {} bytes",
                shown.len(),
                outcome.content.len()
            )
        } else {
            shown.to_owned()
        };
        if shown.len() < outcome.content.len() {
            self.note(Note::Output {
                tool_use_id: tool_use_id.clone(),
                content: outcome.content,
            });
        }
        self.record(Event::ToolResult(ToolResult {
            tool_use_id,
            name,
            ok: !outcome.is_error,
            result,
            summary,
            metadata,
            duration_ms: took.map(millis),
        }))
    }
}

/// A call and what it returned.
pub(super) struct EndedCall {
    pub(super) id: String,
    /// The model-facing name of the tool.
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// How long it took, where this process has measured it.
    pub(super) took: Option<Duration>,
}

/// Whole milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Waits a bounded time for cancelled calls to end, so that each can stop its peer. The rest is dropped.
async fn wind_down(calls: impl Stream) {
    let ending = calls.for_each(|_| std::future::ready(()));
    if tokio::time::timeout(WIND_DOWN, ending).await.is_err() {
        debug!("cancelled tool call did not end in time");
    }
}

/// The files of an outcome, as attachments with their text.
async fn files_of(outcome: &Outcome, reader: &dyn FileReader) -> Vec<Attachment> {
    let came = outcome.files.iter().map(|file| Attachment {
        size: Some(decoded_bytes(&file.data)),
        ..Attachment::inline(&*file.filename, &*file.mime_type, &*file.data)
    });
    reader
        .read_leniently(came.collect(), TOOL_FILES_MAX_BYTES)
        .await
}

/// The decoded size of a base64 text.
fn decoded_bytes(base64: &str) -> u64 {
    let digits = base64.trim_end_matches('=').len() as u64;
    digits.saturating_mul(3) / 4
}

fn count(outcome: &Outcome, took: Duration) {
    METRICS.tool_time.took(took);
    if outcome.is_error {
        METRICS.tools_failed.add(1);
    } else {
        METRICS.tools_ok.add(1);
    }
}

/// The first `bytes` of a text at most, cut at a character boundary.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn summary_of(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let mut summary: String = line.chars().take(SUMMARY_CHARS).collect();
    if summary.len() < line.len() {
        summary.push('…');
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_size_excludes_padding() {
        for (base64, bytes) in [
            ("", 0),
            ("YQ==", 1),
            ("YQ", 1),
            ("YWI=", 2),
            ("YWJj", 3),
            ("YWJjZA==", 4),
        ] {
            assert_eq!(decoded_bytes(base64), bytes, "{base64}");
        }
    }
}
