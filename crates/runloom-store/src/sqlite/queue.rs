//! What waits for the writer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Many send, the writer takes all that is there at once.
#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    /// Rung when something came while the writer slept, and at the end.
    bell: Condvar,
    /// Places that are free.
    room: Semaphore,
}

#[derive(Debug)]
struct Waiting<T> {
    items: Vec<T>,
    asleep: bool,
    closed: bool,
}

/// What [`Queue::take`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Something; it is in the group now.
    Some,
    /// Nothing came in time.
    Nothing,
    /// Nothing is there and nothing will come.
    Closed,
}

impl<T> Queue<T> {
    /// At most `room` wait.
    pub(super) fn new(room: usize) -> Self {
        let waiting = Waiting {
            items: Vec::new(),
            asleep: false,
            closed: false,
        };
        Self {
            waiting: Mutex::new(waiting),
            bell: Condvar::new(),
            room: Semaphore::new(room),
        }
    }

    /// Waits for room; gives the item back when the queue is closed.
    pub(super) async fn send(&self, item: T) -> Result<(), T> {
        match self.room.acquire().await {
            // The place is given back by whoever takes the item.
            Ok(place) => place.forget(),
            Err(_) => return Err(item),
        }
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(item);
        }
        waiting.items.push(item);
        let wake = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        if wake {
            self.bell.notify_one();
        }
        Ok(())
    }

    /// Moves at most `most` items into the group, oldest first. Waits while there are none, at most for `patience` when it is given.
    pub(super) fn take(
        &self,
        group: &mut Vec<T>,
        most: usize,
        patience: Option<Duration>,
    ) -> Taken {
        let mut waiting = self.lock();
        while waiting.items.is_empty() {
            if waiting.closed {
                return Taken::Closed;
            }
            waiting.asleep = true;
            let Some(patience) = patience else {
                waiting = self
                    .bell
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let woken = self.bell.wait_timeout(waiting, patience);
            let (guard, time) = woken.unwrap_or_else(PoisonError::into_inner);
            waiting = guard;
            if time.timed_out() && waiting.items.is_empty() {
                waiting.asleep = false;
                return Taken::Nothing;
            }
        }
        let count = waiting.items.len().min(most);
        group.extend(waiting.items.drain(..count));
        drop(waiting);
        self.room.add_permits(count);
        Taken::Some
    }

    /// Takes nothing more. What waits can still be taken.
    pub(super) fn close(&self) {
        self.room.close();
        self.lock().closed = true;
        self.bell.notify_all();
    }

    /// Takes nothing more and drops what waits.
    pub(super) fn abandon(&self) {
        self.close();
        let dropped = std::mem::take(&mut self.lock().items);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_that_waits_is_taken_in_the_order_in_which_it_came() {
        let queue = Queue::new(8);
        for n in 0..5 {
            queue.send(n).await.unwrap();
        }
        let mut group = Vec::new();
        assert_eq!(queue.take(&mut group, 3, None), Taken::Some);
        assert_eq!(group, [0, 1, 2]);
        assert_eq!(queue.take(&mut group, 3, None), Taken::Some);
        assert_eq!(group, [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_full_queue_makes_the_next_wait_until_something_is_taken() {
        let queue = Queue::new(1);
        queue.send(1).await.unwrap();
        let mut next = Box::pin(queue.send(2));
        let pending =
            std::future::poll_fn(|cx| std::task::Poll::Ready(next.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
        let mut group = Vec::new();
        queue.take(&mut group, 8, None);
        next.await.unwrap();
        queue.take(&mut group, 8, None);
        assert_eq!(group, [1, 2]);
    }

    #[tokio::test]
    async fn patience_ends_without_anything() {
        let queue: Queue<u8> = Queue::new(1);
        let taken = queue.take(&mut Vec::new(), 1, Some(Duration::from_millis(1)));
        assert_eq!(taken, Taken::Nothing);
    }

    #[test]
    fn a_sleeper_is_woken_by_what_comes_and_by_the_end() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| {
                let mut group = Vec::new();
                while queue.take(&mut group, 1, None) != Taken::Closed {}
                group
            });
            let sent = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap()
                .block_on(queue.send(7));
            sent.unwrap();
            queue.close();
            assert_eq!(taking.join().unwrap(), [7]);
        });
    }

    #[tokio::test]
    async fn a_closed_queue_gives_back_what_it_is_sent() {
        let queue = Queue::new(1);
        queue.abandon();
        assert_eq!(queue.send(3).await, Err(3));
    }
}
