//! Rate limits: sliding 60-second windows, one per credential and bucket.
//!
//! A window counts admissions in one-second slots and keeps 61 of them: the running second and the 60 before it. So no
//! 60 seconds ever see more than the limit, and an admission leaves the window at most one second late. Fixed windows
//! would let twice the limit pass around their edge, and exact timestamps would cost memory by the limit. A refused
//! request is not counted: a client that keeps knocking is not locked out for ever.
//!
//! Processes may share windows. Each still counts what it let in itself: when that alone fills a window nobody has to
//! be asked, and when nobody can be asked it is what the window falls back to. Reads are never shared: theirs is a
//! limit of the transport.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::{Caller, CredentialId};
use crate::error::{Error, Result};
use runloom_engine::metrics::METRICS;
use runloom_ports::store::Millis;
use runloom_ports::windows::SharedWindows;

pub use crate::rate_state::RateState;
pub use runloom_ports::windows::Bucket;

/// Slots of a window, in seconds: the running one and 60 before it.
const SLOTS: usize = 61;

/// Entries at which idle ones are looked for; doubled when most of them are busy, so that sweeping stays cheap.
const SWEEP_AT: usize = 4096;

/// Passwords that may be tried for one address in a minute: plenty for who mistypes, hopeless for who guesses.
const SIGN_INS_PER_MINUTE: u32 = 10;

/// Requests per minute and credential, by bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Run starts; a key's own limit wins.
    pub run_starts_per_minute: u32,
    /// Tool results, cancels, feedback.
    pub lifecycle_per_minute: u32,
    /// Other changes.
    pub writes_per_minute: u32,
    /// Reads and streams: a transport limit, far above honest use.
    pub reads_per_minute: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            run_starts_per_minute: 120,
            lifecycle_per_minute: 600,
            writes_per_minute: 120,
            reads_per_minute: 6000,
        }
    }
}

/// Counts requests and refuses those beyond the limit. Memory is bounded by the credentials that were used in the last
/// minute.
pub struct RateLimiter {
    limits: RateLimits,
    shared: Option<Arc<dyn SharedWindows>>,
    windows: Mutex<Windows>,
}

impl RateLimiter {
    /// A limiter without a past.
    #[must_use]
    pub fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            shared: None,
            windows: Mutex::new(Windows {
                by_key: HashMap::new(),
                sweep_at: SWEEP_AT,
            }),
        }
    }

    /// Counts together with other processes.
    #[must_use]
    pub fn sharing(mut self, shared: Arc<dyn SharedWindows>) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Admits a request and counts it, with other processes where they share windows.
    ///
    /// # Errors
    /// [`Error::RateLimited`] when the window is full; the request is not counted then.
    pub async fn let_in(&self, caller: &Caller, bucket: Bucket, now: Millis) -> Result<RateState> {
        let limit = self.limit(caller.runs_per_minute, bucket);
        self.let_in_as(&caller.key_id, limit, bucket, now).await
    }

    /// The same for who has no workspace: somebody who signs in, an app that asks for a token.
    ///
    /// # Errors
    /// As [`Self::let_in`].
    pub(crate) async fn let_in_as(
        &self,
        who: &CredentialId,
        limit: u32,
        bucket: Bucket,
        now: Millis,
    ) -> Result<RateState> {
        let own = self.count(who, limit, bucket, now);
        let (Ok(state), Some(shared)) = (&own, &self.shared) else {
            return own;
        };
        if bucket == Bucket::Reads {
            return own;
        }
        let window = format!("{who}:{}", bucket.as_str());
        let Some(counted) = shared.admit(&window, state.limit).await else {
            METRICS.shared_windows_missed.add(1);
            return own;
        };
        let state = RateState {
            remaining: state.limit.saturating_sub(counted.sum),
            reset_seconds: counted.reset_seconds,
            ..*state
        };
        if counted.admitted {
            return Ok(state);
        }
        self.lock().take_back(who, bucket);
        METRICS.rate_limited(bucket);
        Err(Error::RateLimited(state))
    }

    /// Admits a request and counts it in this process.
    ///
    /// # Errors
    /// [`Error::RateLimited`] when the window is full; the request is not counted then.
    pub fn admit(&self, caller: &Caller, bucket: Bucket, now: Millis) -> Result<RateState> {
        let limit = self.limit(caller.runs_per_minute, bucket);
        self.count(&caller.key_id, limit, bucket, now)
    }

    /// Refuses what was tried too often in this process, without counting another try.
    pub(super) fn look_in(&self, who: &CredentialId, limit: u32, now: Millis) -> Result<()> {
        let bucket = Bucket::SignIns;
        self.count(who, limit, bucket, now)?;
        self.lock().take_back(who, bucket);
        Ok(())
    }

    /// Requests per minute in a bucket; a credential's own limit of run starts wins.
    pub(crate) fn limit(&self, own_run_starts: Option<u32>, bucket: Bucket) -> u32 {
        match bucket {
            Bucket::RunStarts => own_run_starts.unwrap_or(self.limits.run_starts_per_minute),
            Bucket::Lifecycle => self.limits.lifecycle_per_minute,
            Bucket::Writes => self.limits.writes_per_minute,
            Bucket::Reads => self.limits.reads_per_minute,
            Bucket::SignIns => SIGN_INS_PER_MINUTE,
        }
    }

    fn count(
        &self,
        who: &CredentialId,
        limit: u32,
        bucket: Bucket,
        now: Millis,
    ) -> Result<RateState> {
        let second = now.0.div_euclid(1000);
        let mut windows = self.lock();
        let window = windows.of(who, bucket, second);
        window.advance(second);
        let admitted = window.count(limit);
        let state = RateState {
            limit,
            remaining: limit.saturating_sub(window.sum),
            reset_seconds: window.reset_seconds(),
            bucket: bucket.as_str(),
        };
        drop(windows);
        if admitted {
            Ok(state)
        } else {
            METRICS.rate_limited(bucket);
            Err(Error::RateLimited(state))
        }
    }

    fn lock(&self) -> MutexGuard<'_, Windows> {
        // A panic between two counts leaves a window that is at worst one admission off.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Windows {
    by_key: HashMap<(CredentialId, Bucket), Window>,
    sweep_at: usize,
}

impl Windows {
    fn of(&mut self, key: &CredentialId, bucket: Bucket, second: i64) -> &mut Window {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, window| !window.idle_at(second));
            self.sweep_at = SWEEP_AT.max(self.by_key.len() * 2);
        }
        self.by_key
            .entry((key.clone(), bucket))
            .or_insert_with(|| Window::new(second))
    }

    /// Uncounts the newest request of a window.
    fn take_back(&mut self, key: &CredentialId, bucket: Bucket) {
        if let Some(window) = self.by_key.get_mut(&(key.clone(), bucket)) {
            let slot = Window::slot(window.newest);
            if window.slots[slot] > 0 {
                window.slots[slot] -= 1;
                window.sum -= 1;
            }
        }
    }
}

#[derive(Debug)]
struct Window {
    slots: [u32; SLOTS],
    sum: u32,
    /// The second that the newest slot stands for.
    newest: i64,
}

impl Window {
    fn new(second: i64) -> Self {
        Self {
            slots: [0; SLOTS],
            sum: 0,
            newest: second,
        }
    }

    /// Forgets what has left the window. A clock that goes back is taken for one that stands still.
    fn advance(&mut self, second: i64) {
        let steps = second.saturating_sub(self.newest);
        if steps <= 0 {
            return;
        }
        if steps >= SLOTS as i64 {
            *self = Self::new(second);
            return;
        }
        for passed in 1..=steps {
            let slot = Self::slot(self.newest + passed);
            self.sum -= self.slots[slot];
            self.slots[slot] = 0;
        }
        self.newest = second;
    }

    fn count(&mut self, limit: u32) -> bool {
        let admitted = self.sum < limit;
        if admitted {
            self.slots[Self::slot(self.newest)] += 1;
            self.sum += 1;
        }
        admitted
    }

    fn reset_seconds(&self) -> u32 {
        (1..=SLOTS as u32)
            .find(|&wait| self.slots[Self::slot(self.newest + i64::from(wait))] > 0)
            .unwrap_or(SLOTS as u32)
    }

    fn idle_at(&self, second: i64) -> bool {
        second.saturating_sub(self.newest) >= SLOTS as i64
    }

    fn slot(second: i64) -> usize {
        second.rem_euclid(SLOTS as i64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::test_caller;
    use runloom_ports::windows::Counted;

    fn limiter(run_starts_per_minute: u32) -> RateLimiter {
        RateLimiter::new(RateLimits {
            run_starts_per_minute,
            ..RateLimits::default()
        })
    }

    fn refusal(result: Result<RateState>) -> RateState {
        match result {
            Err(Error::RateLimited(state)) => state,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    #[test]
    fn admits_the_limit_and_refuses_the_next() {
        let limiter = limiter(3);
        let caller = test_caller("a", None);
        for left in [2, 1, 0] {
            let state = limiter
                .admit(&caller, Bucket::RunStarts, Millis(5))
                .unwrap();
            assert_eq!((state.limit, state.remaining), (3, left));
        }
        let state = refusal(limiter.admit(&caller, Bucket::RunStarts, Millis(10)));
        assert_eq!((state.remaining, state.bucket), (0, "run_starts"));
    }

    #[test]
    fn waiting_as_long_as_told_is_enough() {
        let limiter = limiter(2);
        let caller = test_caller("a", None);
        for at in [1_000, 20_000] {
            limiter
                .admit(&caller, Bucket::RunStarts, Millis(at))
                .unwrap();
        }
        let state = refusal(limiter.admit(&caller, Bucket::RunStarts, Millis(30_000)));
        let then = 30_000 + i64::from(state.reset_seconds) * 1000;
        assert!(
            limiter
                .admit(&caller, Bucket::RunStarts, Millis(then - 1_000))
                .is_err()
        );
        assert!(
            limiter
                .admit(&caller, Bucket::RunStarts, Millis(then))
                .is_ok()
        );
    }

    #[test]
    fn no_sixty_seconds_see_more_than_the_limit() {
        let limiter = limiter(5);
        let caller = test_caller("a", None);
        let admitted: Vec<i64> = (0..200_000)
            .step_by(333)
            .filter(|&at| {
                limiter
                    .admit(&caller, Bucket::RunStarts, Millis(at))
                    .is_ok()
            })
            .collect();
        assert!(admitted.len() >= 15, "the window must open again");
        for window in admitted.windows(6) {
            assert!(window[5] - window[0] > 60_000, "{window:?}");
        }
    }

    #[test]
    fn credentials_and_buckets_do_not_share() {
        let limiter = limiter(1);
        let (a, b) = (test_caller("a", None), test_caller("b", None));
        limiter.admit(&a, Bucket::RunStarts, Millis(0)).unwrap();
        limiter.admit(&b, Bucket::RunStarts, Millis(0)).unwrap();
        limiter.admit(&a, Bucket::Lifecycle, Millis(0)).unwrap();
        refusal(limiter.admit(&a, Bucket::RunStarts, Millis(0)));
    }

    #[test]
    fn a_keys_own_limit_wins_for_run_starts_only() {
        let limiter = limiter(100);
        let caller = test_caller("a", Some(1));
        let state = limiter
            .admit(&caller, Bucket::RunStarts, Millis(0))
            .unwrap();
        assert_eq!(state.limit, 1);
        refusal(limiter.admit(&caller, Bucket::RunStarts, Millis(0)));
        let state = limiter.admit(&caller, Bucket::Writes, Millis(0)).unwrap();
        assert_eq!(state.limit, 120);
    }

    #[test]
    fn a_clock_that_goes_back_opens_nothing() {
        let limiter = limiter(1);
        let caller = test_caller("a", None);
        limiter
            .admit(&caller, Bucket::RunStarts, Millis(500_000))
            .unwrap();
        refusal(limiter.admit(&caller, Bucket::RunStarts, Millis(0)));
    }

    #[test]
    fn idle_windows_are_dropped() {
        let limiter = limiter(1);
        for number in 0..SWEEP_AT {
            let caller = test_caller(&number.to_string(), None);
            limiter
                .admit(&caller, Bucket::RunStarts, Millis(0))
                .unwrap();
        }
        limiter
            .admit(
                &test_caller("late", None),
                Bucket::RunStarts,
                Millis(100_000),
            )
            .unwrap();
        assert_eq!(limiter.lock().by_key.len(), 1);
    }

    /// Answers as it is told, and counts how often it was asked.
    #[derive(Default)]
    struct Elsewhere {
        answer: Mutex<Option<Counted>>,
        asked: Mutex<Vec<String>>,
    }

    #[async_trait::async_trait]
    impl SharedWindows for Elsewhere {
        async fn admit(&self, window: &str, _limit: u32) -> Option<Counted> {
            self.asked.lock().unwrap().push(window.to_owned());
            *self.answer.lock().unwrap()
        }
    }

    #[tokio::test]
    async fn windows_are_shared_where_that_says_more_and_fall_back_where_it_fails() {
        let elsewhere = Arc::new(Elsewhere::default());
        let limiter = limiter(2).sharing(Arc::clone(&elsewhere) as _);
        let caller = test_caller("a", None);
        let at = async |bucket| limiter.let_in(&caller, bucket, Millis(0)).await;
        let counted = |admitted, sum| Counted {
            admitted,
            sum,
            reset_seconds: 7,
        };
        // Others have filled the window: what was counted here is taken back.
        *elsewhere.answer.lock().unwrap() = Some(counted(false, 2));
        for _ in 0..3 {
            let state = refusal(at(Bucket::RunStarts).await);
            assert_eq!((state.remaining, state.reset_seconds), (0, 7));
        }
        *elsewhere.answer.lock().unwrap() = Some(counted(true, 1));
        assert_eq!(at(Bucket::RunStarts).await.unwrap().remaining, 1);
        // Nobody answers: this process counts what it let in.
        *elsewhere.answer.lock().unwrap() = None;
        assert_eq!(at(Bucket::RunStarts).await.unwrap().remaining, 0);
        let asked = elsewhere.asked.lock().unwrap().len();
        refusal(at(Bucket::RunStarts).await);
        at(Bucket::Reads).await.unwrap();
        let windows = elsewhere.asked.lock().unwrap();
        assert_eq!(windows.len(), asked, "what is known here is not asked");
        assert!(windows[0].ends_with(":run_starts"), "{windows:?}");
    }
}
