//! The source of times and ids.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::store::Millis;
use crate::trace::Nanos;

/// The server's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// Now.
    #[must_use]
    pub fn now(&self) -> Millis {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// The current time in the clock's full resolution.
    #[must_use]
    pub fn now_finely(&self) -> Nanos {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The suffix of a new id: rising with time, unguessable in the rest.
    #[must_use]
    pub fn new_id(&self) -> impl std::fmt::Display + use<> {
        Uuid::now_v7().simple()
    }

    /// How long it is until `then`; zero when it has passed.
    #[must_use]
    pub fn until(&self, then: Millis) -> Duration {
        Duration::from_millis(u64::try_from(then.0.saturating_sub(self.now().0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC with milliseconds, as the protocol writes times.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}
