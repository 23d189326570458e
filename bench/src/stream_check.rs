//! Checks one event stream: event numbers without gaps, every piece of text, one terminal event.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::http::{Connection, ResponseHead, SseEvent, SseParser};
use crate::load_result::RunTimes;
use crate::script::provider_time;

/// What was seen of one stream so far.
#[derive(Debug)]
pub(crate) struct StreamCheck {
    started: Instant,
    deltas: u64,
    last_id: u64,
    first_text: Option<Duration>,
    provider: Duration,
    end: Option<Duration>,
}

impl StreamCheck {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            deltas: 0,
            last_id: 0,
            first_text: None,
            provider: Duration::ZERO,
            end: None,
        }
    }

    /// Reads the response to its end; times count from `started`.
    pub(crate) async fn read(
        connection: &mut Connection,
        head: ResponseHead,
        started: Instant,
    ) -> anyhow::Result<Self> {
        if head.status != 200 {
            connection
                .expect_body(head, 200)
                .await
                .context("the stream was refused")?;
        }
        let mut parser = SseParser::default();
        let mut check = Self::new(started);
        connection
            .stream_body(head, |piece| parser.push(piece, |event| check.event(event)))
            .await?;
        Ok(check)
    }

    /// Checks one event, of the provider or of Runloom.
    fn event(&mut self, event: SseEvent<'_>) -> anyhow::Result<()> {
        if let Some(id) = event.id {
            anyhow::ensure!(id == self.last_id + 1, "event {id} after {}", self.last_id);
            self.last_id = id;
        }
        match event.event {
            b"assistant_delta" | b"response.output_text.delta" => {
                if self.deltas == 0 {
                    self.first_text = Some(self.started.elapsed());
                    self.provider = provider_time(event.data).unwrap_or_default();
                }
                self.deltas += 1;
            }
            b"result" | b"response.completed" => self.end = Some(self.started.elapsed()),
            b"error" | b"cancelled" => {
                anyhow::bail!("the run failed: {}", String::from_utf8_lossy(event.data));
            }
            _ => {}
        }
        Ok(())
    }

    /// Number of events, by the last event's number.
    pub(crate) fn events(&self) -> u64 {
        self.last_id
    }

    /// The times of a complete stream with `tokens` pieces of text; otherwise an error says what is missing.
    pub(crate) fn finish(&self, tokens: u64) -> anyhow::Result<RunTimes> {
        let end = self
            .end
            .context("the stream ended without a terminal event")?;
        anyhow::ensure!(
            self.deltas == tokens,
            "expected {tokens} pieces of text, got {}",
            self.deltas
        );
        Ok(RunTimes {
            first_text: self.first_text.unwrap_or(end),
            provider: self.provider,
            end,
        })
    }
}
