//! Rate windows that processes share through Valkey or Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use runloom_ports::tasks::Tasks;
use runloom_ports::windows::{Counted, SharedWindows};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::{ValkeyOptions, client};
use crate::Error;
use crate::reconnect_pause::ReconnectPause;

/// How long a request waits for its window. A slower service counts as unreachable.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);
/// Timeout of connecting, which happens in the background.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Deletes the slots that have left the window, counts the request unless the window is full, and returns the state of
/// the window. All processes use the service's clock.
const ADMIT: &str = "\
local now = tonumber(redis.call('TIME')[1])
local slots = redis.call('HGETALL', KEYS[1])
local sum, oldest = 0, now + 1
for i = 1, #slots, 2 do
  local second = tonumber(slots[i])
  if second <= now - 61 then
    redis.call('HDEL', KEYS[1], slots[i])
  else
    sum = sum + tonumber(slots[i + 1])
    oldest = math.min(oldest, second)
  end
end
local admitted = 0
if sum < tonumber(ARGV[1]) then
  admitted = 1
  sum = sum + 1
  oldest = math.min(oldest, now)
  redis.call('HINCRBY', KEYS[1], now, 1)
  redis.call('EXPIRE', KEYS[1], 62)
end
return {admitted, sum, math.max(1, math.min(61, oldest + 61 - now))}";

/// Rate windows in Valkey or Redis, one hash for each.
pub struct ValkeyWindows {
    prefix: String,
    connection: Arc<WindowConnection>,
    _end: DropGuard,
}

/// The connection, which a background task replaces when it breaks.
#[derive(Default)]
struct WindowConnection {
    current: Mutex<Option<MultiplexedConnection>>,
    /// Notified when the current connection must be replaced.
    broken: Notify,
}

impl std::fmt::Debug for ValkeyWindows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValkeyWindows").finish_non_exhaustive()
    }
}

impl ValkeyWindows {
    /// Starts the task that keeps a connection, and returns without waiting for it. The task ends when the windows are
    /// dropped or interrupted.
    ///
    /// # Errors
    /// `url` is not an address of Valkey or Redis.
    pub fn start(url: &str, options: &ValkeyOptions, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let client = client(url)?;
        let connection = Arc::new(WindowConnection::default());
        let end = tasks.shutdown.interrupt_token();
        let (kept, token) = (Arc::clone(&connection), end.clone());
        tasks.spawn_detached("valkey_rate_windows", async move {
            token.run_until_cancelled(kept.maintain(client)).await;
        });
        Ok(Arc::new(Self {
            prefix: format!("{}rate:", options.prefix),
            connection,
            _end: end.drop_guard(),
        }))
    }
}

#[async_trait]
impl SharedWindows for ValkeyWindows {
    async fn admit(&self, window: &str, limit: u32) -> Option<Counted> {
        let mut connection = self.connection.current.lock().clone()?;
        let mut command = redis::cmd("EVAL");
        command
            .arg(ADMIT)
            .arg(1)
            .arg(format!("{}{window}", self.prefix))
            .arg(limit);
        let request = command.query_async::<(u32, u32, u32)>(&mut connection);
        let response = match tokio::time::timeout(RESPONSE_TIMEOUT, request).await {
            Ok(Ok(response)) => Some(response),
            Ok(Err(error)) => {
                warn!(%error, "shared rate window failed");
                None
            }
            Err(_) => None,
        };
        let Some((admitted, sum, reset_seconds)) = response else {
            // Until there is a new connection, requests are counted in this process only.
            *self.connection.current.lock() = None;
            self.connection.broken.notify_one();
            return None;
        };
        Some(Counted {
            admitted: admitted == 1,
            sum,
            reset_seconds,
        })
    }
}

impl WindowConnection {
    /// Connects, and connects again whenever the connection broke.
    async fn maintain(&self, client: redis::Client) {
        let mut pause = ReconnectPause::default();
        let mut is_outage_logged = false;
        loop {
            match connect(&client).await {
                Ok(connection) => {
                    info!("Valkey rate windows connected");
                    is_outage_logged = false;
                    pause.reset();
                    *self.current.lock() = Some(connection);
                    self.broken.notified().await;
                }
                Err(error) if !is_outage_logged => {
                    warn!(%error, "Valkey rate windows disconnected; each process counts alone; retrying");
                    is_outage_logged = true;
                }
                Err(_) => {}
            }
            pause.wait().await;
        }
    }
}

async fn connect(client: &redis::Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
