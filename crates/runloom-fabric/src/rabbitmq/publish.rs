//! Publisher task: sends jobs to the broker and waits for confirmations.

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

use super::broker::{BrokerConfig, BrokerConnection, BrokerError, in_time};
use super::{QueueRole, RabbitState, message};
use crate::reconnect_pause::ReconnectPause;

/// Messages that may be in flight without a confirmation.
const MAX_UNCONFIRMED: usize = 1_024;
/// Delivery mode of a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// Time for the last confirmations after the queue was dropped.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Publishes until the queue is dropped.
pub(super) struct Publisher {
    config: BrokerConfig,
    shared: Arc<RabbitState>,
    outbox: mpsc::Receiver<Job>,
    /// Jobs without a confirmation when the connection broke: at most [`MAX_UNCONFIRMED`] and one.
    resend: VecDeque<Job>,
    /// The job that is being written to the connection.
    sending: Option<Job>,
}

impl Publisher {
    pub(super) fn new(
        config: BrokerConfig,
        shared: Arc<RabbitState>,
        outbox: mpsc::Receiver<Job>,
    ) -> Self {
        Self {
            config,
            shared,
            outbox,
            resend: VecDeque::new(),
            sending: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut pause = ReconnectPause::default();
        let mut is_outage_logged = false;
        while !self.outbox.is_closed() {
            let ended = match in_time(self.connect()).await {
                Ok(connection) => {
                    info!("RabbitMQ publisher connected");
                    is_outage_logged = false;
                    pause.reset();
                    self.shared.publisher_connected();
                    let ended = self.publish(&connection).await;
                    self.shared.publisher_disconnected();
                    if ended.is_ok() {
                        connection.close().await;
                    }
                    ended
                }
                Err(error) => Err(error),
            };
            let Err(error) = ended else { return };
            if !is_outage_logged {
                warn!(%error, "RabbitMQ publisher disconnected; retrying");
                is_outage_logged = true;
            }
            self.move_to_local_workers();
            pause.wait().await;
        }
    }

    async fn connect(&self) -> Result<BrokerConnection, BrokerError> {
        let connection = BrokerConnection::open(&self.config, "publisher").await?;
        connection
            .channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(connection)
    }

    /// Publishes until the connection breaks, or the queue is dropped.
    async fn publish(&mut self, connection: &BrokerConnection) -> Result<(), BrokerError> {
        let mut in_flight = FuturesUnordered::new();
        let outcome = tokio::select! {
            outcome = self.publish_on(connection, &mut in_flight) => outcome,
            error = connection.broken() => Err(error),
        };
        // The broker may or may not have these. A duplicate job is harmless: claims are idempotent.
        self.resend
            .extend(in_flight.iter().map(|sent: &PublishedJob| sent.job));
        self.resend.extend(self.sending.take());
        outcome
    }

    async fn publish_on(
        &mut self,
        connection: &BrokerConnection,
        in_flight: &mut FuturesUnordered<PublishedJob>,
    ) -> Result<(), BrokerError> {
        loop {
            let has_room = in_flight.len() < MAX_UNCONFIRMED;
            tokio::select! {
                biased;
                Some((job, confirmation)) = in_flight.next(), if !in_flight.is_empty() => {
                    self.confirmed(job, confirmation)?;
                }
                job = next(&mut self.resend, &mut self.outbox), if has_room => {
                    let Some(job) = job else {
                        finish(in_flight).await;
                        return Ok(());
                    };
                    self.sending = Some(job);
                    in_flight.push(self.send(connection, job).await?);
                    self.sending = None;
                }
            }
        }
    }

    async fn send(&self, connection: &BrokerConnection, job: Job) -> lapin::Result<PublishedJob> {
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT);
        let confirm = connection
            .channel
            .basic_publish(
                "".into(),
                self.config.options.queue.as_str().into(),
                // `mandatory`: the broker returns the message when the queue was deleted, instead of dropping it.
                BasicPublishOptions {
                    mandatory: true,
                    ..BasicPublishOptions::default()
                },
                &message::encode(job),
                properties,
            )
            .await?;
        Ok(PublishedJob { job, confirm })
    }

    fn confirmed(
        &mut self,
        job: Job,
        confirmation: lapin::Result<Confirmation>,
    ) -> Result<(), BrokerError> {
        match confirmation {
            Ok(Confirmation::Ack(None) | Confirmation::NotRequested) => Ok(()),
            Ok(Confirmation::Nack(_)) => {
                self.shared.unsent(job, "the queue at RabbitMQ is full");
                Ok(())
            }
            Ok(Confirmation::Ack(Some(_))) => {
                self.resend.push_back(job);
                Err(BrokerError::Unroutable)
            }
            Err(error) => {
                self.resend.push_back(job);
                Err(error.into())
            }
        }
    }

    /// Offers unpublished jobs to the workers of this process, if it has any.
    fn move_to_local_workers(&mut self) {
        if self.shared.role == QueueRole::Worker {
            for job in self.resend.drain(..) {
                self.shared.ready.push(job);
            }
            while let Ok(job) = self.outbox.try_recv() {
                self.shared.ready.push(job);
            }
        }
    }
}

/// The next job to publish; `None` after the queue was dropped. Cancel-safe.
async fn next(resend: &mut VecDeque<Job>, outbox: &mut mpsc::Receiver<Job>) -> Option<Job> {
    match resend.pop_front() {
        Some(job) => Some(job),
        None => outbox.recv().await,
    }
}

async fn finish(in_flight: &mut FuturesUnordered<PublishedJob>) {
    let all = async { while in_flight.next().await.is_some() {} };
    let _ = tokio::time::timeout(FINISH_TIMEOUT, all).await;
}

/// A published job; resolves to the job and the broker's confirmation.
struct PublishedJob {
    job: Job,
    confirm: PublisherConfirm,
}

impl Future for PublishedJob {
    type Output = (Job, lapin::Result<Confirmation>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let confirmation = ready!(Pin::new(&mut self.confirm).poll(context));
        Poll::Ready((self.job, confirmation))
    }
}
