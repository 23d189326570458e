//! Wake-ups that are told apart: a task that waits for many things polls only what has called.
//!
//! A token that thousands of tasks wait for has one lock, and polling it takes that lock twice. A task that is woken for every event
//! should not do so each time for something that happens once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Remembers that it was rung, and passes it on to whoever listens then.
#[derive(Debug)]
pub struct Bell {
    ringer: Arc<Ringer>,
    waker: Waker,
}

#[derive(Debug)]
struct Ringer {
    rung: AtomicBool,
    listener: AtomicWaker,
}

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.listener.wake();
    }
}

impl Default for Bell {
    /// It counts as rung: what nobody has looked at yet may have something.
    fn default() -> Self {
        let ringer = Arc::new(Ringer {
            rung: AtomicBool::new(true),
            listener: AtomicWaker::new(),
        });
        let waker = Waker::from(Arc::clone(&ringer));
        Self { ringer, waker }
    }
}

impl Bell {
    /// What is polled with this rings when it has something.
    #[must_use]
    pub fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    /// Rings, without waking anybody.
    pub fn set(&self) {
        self.ringer.rung.store(true, Ordering::Release);
    }

    /// Whether it rang since this was asked last. If not, `cx` is woken when it does.
    pub fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.take() {
            return Poll::Ready(());
        }
        self.ringer.listener.register(cx.waker());
        // It may have rung before the listener was known.
        if self.take() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Whoever listened last is no longer woken.
    pub fn forget(&self) {
        drop(self.ringer.listener.take());
    }

    fn take(&self) -> bool {
        // To look costs less than to take, and mostly there is nothing. What rings after the look finds the listener.
        self.ringer.rung.load(Ordering::Acquire) && self.ringer.rung.swap(false, Ordering::AcqRel)
    }
}

/// How often a future is polled in a row that calls while it is polled.
const MAX_ROUNDS: usize = 16;

/// A future that is polled only when it has called, however often the task around it is woken for something else.
#[derive(Debug)]
pub struct Seldom<F> {
    future: Pin<Box<F>>,
    bell: Bell,
}

impl<F: Future> Seldom<F> {
    /// Not polled yet.
    #[must_use]
    pub fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            bell: Bell::default(),
        }
    }
}

impl<F: Future> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        for _ in 0..MAX_ROUNDS {
            std::task::ready!(this.bell.poll_rung(cx));
            let outcome = this.future.as_mut().poll(&mut this.bell.context());
            if outcome.is_ready() {
                return outcome;
            }
        }
        // It wants others to have their turn first.
        this.bell.set();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn what_has_not_called_is_not_polled_again() {
        let polled = Arc::new(AtomicUsize::new(0));
        let token = CancellationToken::new();
        let (count, cancelled) = (Arc::clone(&polled), token.clone().cancelled_owned());
        let mut cancelled = Box::pin(cancelled);
        let mut seldom = Seldom::new(std::future::poll_fn(move |cx| {
            count.fetch_add(1, Ordering::Relaxed);
            cancelled.as_mut().poll(cx)
        }));
        for _ in 0..5 {
            assert_eq!((&mut seldom).now_or_never(), None);
        }
        assert_eq!(polled.load(Ordering::Relaxed), 1);
        token.cancel();
        seldom.await;
        assert_eq!(polled.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn no_call_is_missed_by_a_task_that_is_just_falling_asleep() {
        let (ask, asked) = std::sync::mpsc::channel::<CancellationToken>();
        let canceller = std::thread::spawn(move || {
            for (n, token) in asked.into_iter().enumerate() {
                // While the other thread is between its first poll and its sleep, at a different place each time.
                (0..n % 64).for_each(|_| std::hint::spin_loop());
                token.cancel();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for _ in 0..20_000 {
            let token = CancellationToken::new();
            let mut cancelled = Box::pin(token.clone().cancelled_owned());
            let mut told = Some(ask.clone());
            let seldom = Seldom::new(std::future::poll_fn(move |cx| {
                let polled = cancelled.as_mut().poll(cx);
                if let Some(told) = told.take() {
                    told.send(token.clone()).unwrap();
                }
                polled
            }));
            runtime.block_on(seldom);
        }
        drop(ask);
        canceller.join().unwrap();
    }

    #[tokio::test]
    async fn what_calls_while_it_is_polled_lets_others_have_their_turn() {
        let mut polls = 0;
        let restless = Seldom::new(std::future::poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls < 100 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }));
        let mut restless = Box::pin(restless);
        assert_eq!(restless.as_mut().now_or_never(), None);
        restless.await;
        assert_eq!(polls, 100);
    }
}
