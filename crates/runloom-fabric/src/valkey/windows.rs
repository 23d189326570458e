//! Rate windows that processes share through Valkey or Redis.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use runloom_ports::tasks::Tasks;
use runloom_ports::windows::{Counted, SharedWindows};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::{ValkeyOptions, client};
use crate::Error;
use crate::backoff::Backoff;

/// How long a request waits for its window. A service that is slower is taken for one that is away.
const ANSWER_AT_MOST: Duration = Duration::from_millis(250);
/// How long connecting may take; nobody waits for it.
const CONNECT_AT_MOST: Duration = Duration::from_secs(5);

/// Forgets the slots that have left the window, counts the request unless the window is full, and says where it stands. The
/// service's clock is the clock of all.
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

/// Windows in Valkey or Redis, one hash for each.
pub struct ValkeyWindows {
    prefix: String,
    shared: Arc<Shared>,
    _end: DropGuard,
}

#[derive(Default)]
struct Shared {
    connection: Mutex<Option<MultiplexedConnection>>,
    /// The connection is of no use any more.
    broken: Notify,
}

impl std::fmt::Debug for ValkeyWindows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValkeyWindows").finish_non_exhaustive()
    }
}

impl ValkeyWindows {
    /// Starts to keep a connection, and returns without waiting for it. Ends when the windows are dropped, or with `tasks.kill`.
    ///
    /// # Errors
    /// When `url` is not an address of Valkey or Redis.
    pub fn start(url: &str, options: &ValkeyOptions, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let client = client(url)?;
        let shared = Arc::new(Shared::default());
        let end = tasks.kill.child_token();
        let (kept, token) = (Arc::clone(&shared), end.clone());
        tasks.spawn_detached("share rate windows", async move {
            token.run_until_cancelled(kept.keep(client)).await;
        });
        Ok(Arc::new(Self {
            prefix: format!("{}rate:", options.prefix),
            shared,
            _end: end.drop_guard(),
        }))
    }
}

#[async_trait]
impl SharedWindows for ValkeyWindows {
    async fn admit(&self, window: &str, limit: u32) -> Option<Counted> {
        let mut connection = self.shared.connection().clone()?;
        let mut command = redis::cmd("EVAL");
        command
            .arg(ADMIT)
            .arg(1)
            .arg(format!("{}{window}", self.prefix))
            .arg(limit);
        let asked = command.query_async::<(u32, u32, u32)>(&mut connection);
        let answer = match tokio::time::timeout(ANSWER_AT_MOST, asked).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                warn!(%error, "rate windows cannot be shared");
                None
            }
            Err(_) => None,
        };
        let Some((admitted, sum, reset_seconds)) = answer else {
            // The next requests count by themselves until there is a new connection.
            *self.shared.connection() = None;
            self.shared.broken.notify_one();
            return None;
        };
        Some(Counted {
            admitted: admitted == 1,
            sum,
            reset_seconds,
        })
    }
}

impl Shared {
    async fn keep(&self, client: redis::Client) {
        let mut backoff = Backoff::default();
        let mut told = false;
        loop {
            match connect(&client).await {
                Ok(connection) => {
                    info!("rate windows are shared through Valkey");
                    told = false;
                    backoff.reset();
                    *self.connection() = Some(connection);
                    self.broken.notified().await;
                }
                Err(error) if !told => {
                    warn!(%error, "rate windows are not shared; each process counts by itself; trying again");
                    told = true;
                }
                Err(_) => {}
            }
            backoff.wait().await;
        }
    }

    fn connection(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(client: &redis::Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_AT_MOST))
        .set_response_timeout(Some(ANSWER_AT_MOST));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
