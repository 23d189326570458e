//! A run's events, once each, across any number of connections.

use std::collections::VecDeque;
use std::convert::Infallible;

use futures_util::Stream;
use reqwest::{Response, Url};
use runloom_protocol::sse::SseParser;

use crate::error::{Error, Result};
use crate::event::RunEvent;
use crate::transport::Transport;

/// The events of one run, in order, each once. It reconnects by itself after a cut, a silence or a clean early close,
/// and ends after the terminal event.
#[derive(Debug)]
pub struct RunStream {
    transport: Transport,
    url: Url,
    last_seq: u64,
    connection: Option<Connection>,
    /// Openings in a row that gave no event.
    fruitless: u32,
    ended: bool,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    parser: SseParser,
    /// Events that were received and not yet returned.
    received: VecDeque<Result<RunEvent>>,
}

/// What reading a connection gave.
enum Read {
    Event(Box<RunEvent>),
    /// The server closed it, in order.
    Closed,
}

impl RunStream {
    pub(crate) fn new(transport: Transport, url: Url, last_seq: u64) -> Self {
        Self {
            transport,
            url,
            last_seq,
            connection: None,
            fruitless: 0,
            ended: false,
        }
    }

    /// The last event that was given out; where another stream would go on.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The next event, or `None` after the terminal one. Safe to drop while it waits: nothing is lost.
    ///
    /// # Errors
    /// A refusal that waiting does not change, a server that stays away, or frames that are not the protocol. The
    /// stream is then over.
    pub async fn next(&mut self) -> Result<Option<RunEvent>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let read = match &mut self.connection {
                Some(connection) => connection.read(&self.transport).await,
                None => match self.open().await {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
            };
            match read {
                Ok(Read::Event(event)) if event.seq <= self.last_seq => {}
                Ok(Read::Event(event)) => {
                    self.last_seq = event.seq;
                    self.fruitless = 0;
                    self.ended = event.is_terminal();
                    return Ok(Some(*event));
                }
                Ok(Read::Closed) => self.connection = None,
                Err(error) if error.is_transient() => self.back_off(error).await?,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    /// The same as a [`Stream`], for combinators. An error is its last item.
    pub fn into_stream(self) -> impl Stream<Item = Result<RunEvent>> + Send {
        futures_util::stream::unfold(self, |mut stream| async move {
            let item = stream.next().await.transpose()?;
            Some((item, stream))
        })
    }

    /// Opens the connection. A clean close is answered at once, as the protocol wishes, but not for ever: every
    /// opening counts until an event arrives, and from the second on it waits.
    async fn open(&mut self) -> Result<()> {
        let policy = self.transport.options.reconnect;
        if self.fruitless > policy.max_retries {
            self.ended = true;
            return Err(Error::Protocol(format!(
                "the stream was closed {} times without an event or an end",
                self.fruitless
            )));
        }
        if self.fruitless > 1 {
            tokio::time::sleep(policy.delay(self.fruitless - 1, None)).await;
        }
        let response = self
            .transport
            .open_stream(self.url.clone(), self.last_seq)
            .await?;
        self.fruitless += 1;
        self.connection = Some(Connection {
            response,
            parser: SseParser::new(self.transport.options.max_frame_bytes),
            received: VecDeque::new(),
        });
        Ok(())
    }

    async fn back_off(&mut self, error: Error) -> Result<()> {
        self.connection = None;
        let policy = self.transport.options.reconnect;
        if self.fruitless >= policy.max_retries {
            self.ended = true;
            return Err(error);
        }
        self.fruitless += 1;
        tokio::time::sleep(policy.delay(self.fruitless, error.retry_after())).await;
        Ok(())
    }
}

impl Connection {
    async fn read(&mut self, transport: &Transport) -> Result<Read> {
        let options = &transport.options;
        loop {
            if let Some(event) = self.received.pop_front() {
                return Ok(Read::Event(Box::new(event?)));
            }
            let chunk = tokio::time::timeout(options.idle_timeout, self.response.chunk())
                .await
                .map_err(|_| Error::Timeout(options.idle_timeout))?
                .map_err(|error| Error::from_transport(error, options.idle_timeout))?;
            let Some(chunk) = chunk else {
                return Ok(Read::Closed);
            };
            let received = &mut self.received;
            let pushed = self.parser.push(&chunk, |event| {
                received.push_back(RunEvent::parse(event));
                Ok::<(), Infallible>(())
            });
            if let Err(error) = pushed {
                received.push_back(Err(Error::Protocol(error.to_string())));
            }
        }
    }
}
