//! The loop that fetches jobs from the broker and tells it which were tried.

use std::sync::Arc;

use futures_util::StreamExt;
use lapin::Acker;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use runloom_ports::queue::Queue as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::line::{Line, LineError, Place, in_time};
use super::{Shared, message};
use crate::backoff::Backoff;

/// Consumes until it is told to stop.
pub(super) struct Consumer {
    place: Place,
    shared: Arc<Shared>,
    receipts: mpsc::Receiver<Acker>,
}

impl Consumer {
    pub(super) fn new(place: Place, shared: Arc<Shared>, receipts: mpsc::Receiver<Acker>) -> Self {
        Self {
            place,
            shared,
            receipts,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut backoff = Backoff::default();
        let mut told = false;
        while !stop.is_cancelled() {
            let ended = match stop.run_until_cancelled(in_time(self.connect())).await {
                None => return,
                Some(Err(error)) => Err(error),
                Some(Ok((line, mut deliveries))) => {
                    info!("jobs come from RabbitMQ");
                    told = false;
                    backoff.reset();
                    let ended = tokio::select! {
                        ended = self.consume(&mut deliveries, &stop) => ended,
                        error = line.broken() => Err(error),
                    };
                    drop(deliveries);
                    if ended.is_ok() {
                        line.close().await;
                    }
                    ended
                }
            };
            // What was fetched and waits here stays offered. The broker delivers it again, which does no harm.
            self.shared.deliveries.forget();
            let Err(error) = ended else { return };
            if !told {
                warn!(%error, "no jobs come from RabbitMQ; runs are found by sweeping; trying again");
                told = true;
            }
            if stop.run_until_cancelled(backoff.wait()).await.is_none() {
                return;
            }
        }
    }

    async fn connect(&self) -> Result<(Line, lapin::Consumer), LineError> {
        let line = Line::open(&self.place, "worker").await?;
        let options = &self.place.options;
        // Zero would mean: as many as there are.
        let prefetch = options.prefetch.max(1);
        line.channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let deliveries = line
            .channel
            .basic_consume(
                options.queue.as_str().into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        Ok((line, deliveries))
    }

    /// Consumes until the connection breaks; `Ok` when it was told to stop.
    async fn consume(
        &mut self,
        deliveries: &mut lapin::Consumer,
        stop: &CancellationToken,
    ) -> Result<(), LineError> {
        loop {
            tokio::select! {
                biased;
                // The other end of the receipts is in `shared`, so they never end.
                Some(acker) = self.receipts.recv() => acknowledge(&acker).await?,
                () = stop.cancelled() => return Ok(()),
                delivery = deliveries.next() => match delivery {
                    Some(delivery) => self.arrived(delivery?).await?,
                    None => return Err(LineError::Cancelled),
                },
            }
        }
    }

    async fn arrived(&self, delivery: Delivery) -> Result<(), LineError> {
        let Some(job) = message::decode(&delivery.data) else {
            warn!("a message in the queue is no job; it becomes a dead letter");
            let options = BasicRejectOptions { requeue: false };
            delivery.acker.reject(options).await?;
            return Ok(());
        };
        self.shared.deliveries.arrived(job.run, delivery.acker);
        self.shared.ready.push(job);
        Ok(())
    }
}

async fn acknowledge(acker: &Acker) -> Result<(), LineError> {
    // A receipt of a broken connection is poisoned, and acknowledges nothing.
    acker.ack(BasicAckOptions::default()).await?;
    Ok(())
}
