//! Consumer task: fetches jobs from the broker and acknowledges them after their claim was tried.

use std::sync::Arc;

use futures_util::StreamExt;
use lapin::Acker;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use runloom_ports::queue::Queue as _;
use runloom_ports::shutdown::Shutdown;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::broker::{BrokerConfig, BrokerConnection, BrokerError, in_time};
use super::{RabbitState, message};
use crate::reconnect_pause::ReconnectPause;

/// Consumes until shutdown.
pub(super) struct Consumer {
    config: BrokerConfig,
    shared: Arc<RabbitState>,
    receipts: mpsc::Receiver<Acker>,
}

impl Consumer {
    pub(super) fn new(
        config: BrokerConfig,
        shared: Arc<RabbitState>,
        receipts: mpsc::Receiver<Acker>,
    ) -> Self {
        Self {
            config,
            shared,
            receipts,
        }
    }

    pub(super) async fn run(mut self, shutdown: Shutdown) {
        let mut pause = ReconnectPause::default();
        let mut is_outage_logged = false;
        while !shutdown.is_draining() {
            let ended = match shutdown.until_draining(in_time(self.connect())).await {
                None => return,
                Some(Err(error)) => Err(error),
                Some(Ok((connection, mut deliveries))) => {
                    info!("RabbitMQ consumer connected");
                    is_outage_logged = false;
                    pause.reset();
                    let ended = tokio::select! {
                        ended = self.consume(&mut deliveries, &shutdown) => ended,
                        error = connection.broken() => Err(error),
                    };
                    drop(deliveries);
                    if ended.is_ok() {
                        connection.close().await;
                    }
                    ended
                }
            };
            // Fetched jobs stay queued here. The broker redelivers them, which is harmless: claims are idempotent.
            self.shared.deliveries.clear();
            let Err(error) = ended else { return };
            if !is_outage_logged {
                warn!(%error, "RabbitMQ consumer disconnected; workers find runs by sweeping; retrying");
                is_outage_logged = true;
            }
            if shutdown.until_draining(pause.wait()).await.is_none() {
                return;
            }
        }
    }

    async fn connect(&self) -> Result<(BrokerConnection, lapin::Consumer), BrokerError> {
        let connection = BrokerConnection::open(&self.config, "worker").await?;
        let options = &self.config.options;
        // Zero would mean unlimited.
        let prefetch = options.prefetch.max(1);
        connection
            .channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let deliveries = connection
            .channel
            .basic_consume(
                options.queue.as_str().into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        Ok((connection, deliveries))
    }

    /// Consumes until the connection breaks; `Ok` on shutdown.
    async fn consume(
        &mut self,
        deliveries: &mut lapin::Consumer,
        shutdown: &Shutdown,
    ) -> Result<(), BrokerError> {
        loop {
            tokio::select! {
                biased;
                // The sender is in `shared`, so this channel never closes.
                Some(acker) = self.receipts.recv() => acknowledge(&acker).await?,
                () = shutdown.draining() => return Ok(()),
                delivery = deliveries.next() => match delivery {
                    Some(delivery) => self.arrived(delivery?).await?,
                    None => return Err(BrokerError::Cancelled),
                },
            }
        }
    }

    async fn arrived(&self, delivery: Delivery) -> Result<(), BrokerError> {
        let Some(job) = message::decode(&delivery.data) else {
            warn!("message is not a job; moved to the dead-letter queue");
            let options = BasicRejectOptions { requeue: false };
            delivery.acker.reject(options).await?;
            return Ok(());
        };
        self.shared.deliveries.arrived(job.run, delivery.acker);
        self.shared.ready.push(job);
        Ok(())
    }
}

async fn acknowledge(acker: &Acker) -> Result<(), BrokerError> {
    // An acker of a broken connection is poisoned and acknowledges nothing.
    acker.ack(BasicAckOptions::default()).await?;
    Ok(())
}
