//! The loop that brings jobs to the broker.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Confirmation, PublisherConfirm};
use runloom_ports::queue::{Job, Queue as _};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::line::{Line, LineError, Place, in_time};
use super::{Role, Shared, message};
use crate::backoff::Backoff;

/// Messages that may be under way without the broker's word that it has them.
const UNCONFIRMED: usize = 1_024;
/// Delivery mode of a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// How long the last messages may take when the queue is dropped.
const FINISH_AT_MOST: Duration = Duration::from_secs(1);

/// Publishes until the queue is dropped.
pub(super) struct Publisher {
    place: Place,
    shared: Arc<Shared>,
    outbox: mpsc::Receiver<Job>,
    /// What a broken connection may not have carried over. At most [`UNCONFIRMED`] jobs and one.
    again: VecDeque<Job>,
    /// What is being given to the connection.
    sending: Option<Job>,
}

impl Publisher {
    pub(super) fn new(place: Place, shared: Arc<Shared>, outbox: mpsc::Receiver<Job>) -> Self {
        Self {
            place,
            shared,
            outbox,
            again: VecDeque::new(),
            sending: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut told = false;
        while !self.outbox.is_closed() {
            let ended = match in_time(self.connect()).await {
                Ok(line) => {
                    info!("jobs go through RabbitMQ");
                    told = false;
                    backoff.reset();
                    self.shared.set_online(true);
                    let ended = self.publish(&line).await;
                    self.shared.set_online(false);
                    if ended.is_ok() {
                        line.close().await;
                    }
                    ended
                }
                Err(error) => Err(error),
            };
            let Err(error) = ended else { return };
            if !told {
                warn!(%error, "jobs do not get to RabbitMQ; trying again");
                told = true;
            }
            self.keep_here();
            backoff.wait().await;
        }
    }

    async fn connect(&self) -> Result<Line, LineError> {
        let line = Line::open(&self.place, "publisher").await?;
        line.channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(line)
    }

    /// Publishes until the connection breaks, or the queue is dropped.
    async fn publish(&mut self, line: &Line) -> Result<(), LineError> {
        let mut under_way = FuturesUnordered::new();
        let outcome = tokio::select! {
            outcome = self.publish_on(line, &mut under_way) => outcome,
            error = line.broken() => Err(error),
        };
        // Nobody knows whether the broker has these; a doubled job does no harm.
        self.again
            .extend(under_way.iter().map(|sent: &Sent| sent.job));
        self.again.extend(self.sending.take());
        outcome
    }

    async fn publish_on(
        &mut self,
        line: &Line,
        under_way: &mut FuturesUnordered<Sent>,
    ) -> Result<(), LineError> {
        loop {
            let room = under_way.len() < UNCONFIRMED;
            tokio::select! {
                biased;
                Some((job, confirmation)) = under_way.next(), if !under_way.is_empty() => {
                    self.confirmed(job, confirmation)?;
                }
                job = next(&mut self.again, &mut self.outbox), if room => {
                    let Some(job) = job else {
                        finish(under_way).await;
                        return Ok(());
                    };
                    self.sending = Some(job);
                    under_way.push(self.send(line, job).await?);
                    self.sending = None;
                }
            }
        }
    }

    async fn send(&self, line: &Line, job: Job) -> lapin::Result<Sent> {
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT);
        let confirm = line
            .channel
            .basic_publish(
                "".into(),
                self.place.options.queue.as_str().into(),
                // A queue that was deleted meanwhile makes the broker return the message instead of swallowing it.
                BasicPublishOptions {
                    mandatory: true,
                    ..BasicPublishOptions::default()
                },
                &message::encode(job),
                properties,
            )
            .await?;
        Ok(Sent { job, confirm })
    }

    fn confirmed(
        &mut self,
        job: Job,
        confirmation: lapin::Result<Confirmation>,
    ) -> Result<(), LineError> {
        match confirmation {
            Ok(Confirmation::Ack(None) | Confirmation::NotRequested) => Ok(()),
            Ok(Confirmation::Nack(_)) => {
                self.shared.unsent(job, "RabbitMQ takes no more jobs");
                Ok(())
            }
            Ok(Confirmation::Ack(Some(_))) => {
                self.again.push_back(job);
                Err(LineError::Unroutable)
            }
            Err(error) => {
                self.again.push_back(job);
                Err(error.into())
            }
        }
    }

    /// While the broker is away the workers of this process, if it has any, take what was meant for all.
    fn keep_here(&mut self) {
        if self.shared.role == Role::Worker {
            for job in self.again.drain(..) {
                self.shared.ready.push(job);
            }
            while let Ok(job) = self.outbox.try_recv() {
                self.shared.ready.push(job);
            }
        }
    }
}

/// The next job to publish; `None` when there will be none. Cancel-safe.
async fn next(again: &mut VecDeque<Job>, outbox: &mut mpsc::Receiver<Job>) -> Option<Job> {
    match again.pop_front() {
        Some(job) => Some(job),
        None => outbox.recv().await,
    }
}

async fn finish(under_way: &mut FuturesUnordered<Sent>) {
    let all = async { while under_way.next().await.is_some() {} };
    let _ = tokio::time::timeout(FINISH_AT_MOST, all).await;
}

/// A message under way: becomes what the broker says about it, and which job it was.
struct Sent {
    job: Job,
    confirm: PublisherConfirm,
}

impl Future for Sent {
    type Output = (Job, lapin::Result<Confirmation>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let confirmation = ready!(Pin::new(&mut self.confirm).poll(context));
        Poll::Ready((self.job, confirmation))
    }
}
