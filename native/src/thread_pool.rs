//! Threads of our own for work that may block: never one of the pool that Deno's file operations share.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sync::{lock, start_thread};

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Too many jobs wait, or no thread can be had: the job was dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

/// Invariant: `idle` of the `threads` wait for a job. A job is in `waiting` until a thread takes it.
#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

struct Pool {
    jobs: Mutex<Jobs>,
    filled: Condvar,
    name: &'static str,
    threads: usize,
    waiting: usize,
}

/// A thread for each job under way. Threads start when they are needed and end when there is nothing for them; a job that
/// hangs holds its own thread alone.
#[derive(Clone)]
pub struct ThreadPool(Arc<Pool>);

impl ThreadPool {
    /// A pool of at most `threads` threads, none of them started, for which at most `waiting` jobs wait in their order.
    pub fn new(name: &'static str, threads: usize, waiting: usize) -> Self {
        Self(Arc::new(Pool {
            jobs: Mutex::default(),
            filled: Condvar::new(),
            name,
            threads,
            waiting,
        }))
    }

    /// Runs a job on a thread of its own, at once if there are threads left.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let mut state = lock(&self.0.jobs);
        let needed = state.waiting.len() >= state.idle;
        if needed && state.threads >= self.0.threads && state.waiting.len() >= self.0.waiting {
            return Err(Busy);
        }
        state.waiting.push_back(Box::new(job));
        if needed && state.threads < self.0.threads {
            state.threads += 1;
            drop(state);
            return self.start();
        }
        drop(state);
        self.0.filled.notify_one();
        Ok(())
    }

    fn start(&self) -> Result<(), Busy> {
        let shared = Arc::clone(&self.0);
        if start_thread(self.0.name, move || shared.work()).is_ok() {
            return Ok(());
        }
        let mut state = lock(&self.0.jobs);
        state.threads -= 1;
        if state.threads > 0 {
            return Ok(());
        }
        let orphans = std::mem::take(&mut state.waiting);
        drop(state);
        drop(orphans);
        Err(Busy)
    }
}

impl Pool {
    fn work(&self) {
        let mut state = lock(&self.jobs);
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                // A job that panics must not take the thread with it.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = lock(&self.jobs);
                continue;
            }
            state.idle += 1;
            let (woken, waited) = self
                .filled
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Jobs that have begun and hang until what is returned is dropped.
    fn hang(pool: &ThreadPool, count: usize) -> Vec<Sender<()>> {
        let (started, is_started) = channel();
        let hung = (0..count).map(|_| {
            let (release, released) = channel::<()>();
            let started = started.clone();
            let job = move || {
                started.send(()).unwrap();
                let _ = released.recv();
            };
            pool.run(job).unwrap();
            release
        });
        let hung = hung.collect();
        assert_eq!(is_started.iter().take(count).count(), count);
        hung
    }

    #[test]
    fn jobs_that_hang_hold_up_no_others_and_threads_are_used_again() {
        let pool = ThreadPool::new("test", 4, 0);
        let hung = hang(&pool, 3);
        for _ in 0..100 {
            let (done, is_done) = channel();
            // The thread may not be back from the job before.
            while pool.run({
                let done = done.clone();
                move || done.send(()).unwrap()
            }) == Err(Busy)
            {
                std::thread::yield_now();
            }
            is_done.recv().unwrap();
        }
        assert_eq!(lock(&pool.0.jobs).threads, 4);
        drop(hung);
    }

    #[test]
    fn what_is_beyond_the_threads_waits_in_order_and_what_is_beyond_that_is_refused() {
        let pool = ThreadPool::new("test", 1, 10);
        let hung = hang(&pool, 1);
        let (done, is_done) = channel();
        for number in 0..10 {
            let done = done.clone();
            pool.run(move || done.send(number).unwrap()).unwrap();
        }
        assert_eq!(pool.run(|| ()), Err(Busy));
        drop(hung);
        let order: Vec<i32> = is_done.iter().take(10).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_costs_no_thread() {
        let pool = ThreadPool::new("test", 1, 2);
        pool.run(|| panic!("expected by this test")).unwrap();
        let (done, is_done) = channel();
        pool.run(move || done.send(()).unwrap()).unwrap();
        is_done.recv().unwrap();
        assert_eq!(lock(&pool.0.jobs).threads, 1);
    }
}
