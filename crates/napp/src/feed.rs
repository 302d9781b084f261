//! A bounded queue from the core to one reader. What it keeps true: pushing never waits; when it is full, the policy of
//! its owner decides, and what is lost is counted; everything that was pushed before the end is read before the end.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// `T` = what is queued, `E` = how it ended.
#[derive(Debug)]
pub(crate) struct Feed<T, E> {
    state: Mutex<State<T, E>>,
}

#[derive(Debug)]
struct State<T, E> {
    queue: VecDeque<T>,
    max: usize,
    dropped: u64,
    end: Option<E>,
    waker: Option<Waker>,
}

impl<T, E: Clone> Feed<T, E> {
    /// Empty, with room for `max` (at least 1).
    pub(crate) fn new(max: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                max: max.max(1),
                dropped: 0,
                end: None,
                waker: None,
            }),
        }
    }

    // No code that can panic runs under this lock, so what it guards is sound even if it was poisoned.
    fn state(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends; when it is full the oldest goes. Gives how many went so far, if one went now.
    pub(crate) fn push_or_drop_oldest(&self, item: T) -> Option<u64> {
        let mut state = self.state();
        if state.end.is_some() {
            return None;
        }
        let full = state.queue.len() >= state.max;
        let oldest = if full { state.queue.pop_front() } else { None };
        state.queue.push_back(item);
        state.dropped += u64::from(full);
        let (dropped, waker) = (state.dropped, state.waker.take());
        drop(state);
        drop(oldest);
        waker.into_iter().for_each(Waker::wake);
        full.then_some(dropped)
    }

    /// Appends if fewer than `max` are there; false when it is full.
    pub(crate) fn push_within(&self, item: T, max: usize) -> bool {
        let mut state = self.state();
        if state.end.is_some() {
            return true;
        }
        if state.queue.len() >= max {
            return false;
        }
        state.queue.push_back(item);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// The first end counts.
    pub(crate) fn end(&self, end: E) {
        let mut state = self.state();
        state.end.get_or_insert(end);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next item; `None` when all were read and it has ended.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.state();
        if let Some(item) = state.queue.pop_front() {
            return Poll::Ready(Some(item));
        }
        if state.end.is_some() {
            return Poll::Ready(None);
        }
        register(&mut state.waker, cx);
        Poll::Pending
    }

    /// Throws away what is queued and gives the end when it is there; counts what it threw away.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>, skipped: &mut u64) -> Poll<E> {
        let mut state = self.state();
        *skipped += state.queue.len() as u64;
        let queue = std::mem::take(&mut state.queue);
        let end = state.end.clone();
        if end.is_none() {
            register(&mut state.waker, cx);
        }
        drop(state);
        drop(queue);
        end.map_or(Poll::Pending, Poll::Ready)
    }

    /// How it ended, if it did.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().queue.is_empty()
    }

    pub(crate) fn ended(&self) -> Option<E> {
        self.state().end.clone()
    }

    /// How many fell because it was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.state().dropped
    }
}

pub(crate) fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_3_overflow_drops_the_oldest_and_what_came_before_the_end_is_read_before_it() {
        let feed = Feed::new(2);
        let dropped: Vec<_> = (1..=4).map(|n| feed.push_or_drop_oldest(n)).collect();
        feed.end("over");
        feed.push_or_drop_oldest(5);
        let mut cx = Context::from_waker(Waker::noop());
        let read: Vec<_> = (0..3).map(|_| feed.poll_next(&mut cx)).collect();
        assert_eq!(dropped, [None, None, Some(1), Some(2)]);
        assert_eq!(
            read,
            [
                Poll::Ready(Some(3)),
                Poll::Ready(Some(4)),
                Poll::Ready(None)
            ]
        );
        assert_eq!((feed.ended(), feed.dropped()), (Some("over"), 2));
    }
}
