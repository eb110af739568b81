//! Threads for transfers, as many as have something to do at the moment.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 << 10;

/// Invariant: `idle` threads of `threads` are inside the wait; a job is queued only while there
/// are more idle threads than jobs or no further thread may be started.
#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    name: &'static str,
    cap: usize,
    nice: i32,
}

/// Threads that start when there is work for them and end when there is none. A job is one step of
/// one transfer, so that a transfer whose peer is slow holds no thread, and one whose disk hangs
/// holds one; what is beyond `cap` waits its turn.
#[derive(Clone)]
pub struct Crew(Arc<Shared>);

impl Crew {
    /// A crew of at most `cap` threads, none of them started. `nice` is how far they stand back
    /// behind the thread that answers requests.
    pub fn new(name: &'static str, cap: usize, nice: i32) -> Self {
        let (state, filled) = Default::default();
        Self(Arc::new(Shared {
            state,
            filled,
            name,
            cap,
            nice,
        }))
    }

    /// Queues a job. It is dropped unrun if no thread at all can be started.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        state.queue.push_back(Box::new(job));
        if state.queue.len() <= state.idle || state.threads >= self.0.cap {
            drop(state);
            self.0.filled.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.0);
        let started = thread::Builder::new()
            .name(self.0.name.into())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work());
        if started.is_err() {
            let mut state = self.0.lock();
            state.threads -= 1;
            let orphans = match state.threads {
                0 => std::mem::take(&mut state.queue),
                _ => VecDeque::new(),
            };
            drop(state);
            drop(orphans);
        }
    }
}

impl Shared {
    fn work(&self) {
        // Of this thread alone. Copying megabytes must not keep the thread that answers from its
        // processor; a writer that falls behind slows its own upload only.
        let _ = rustix::process::nice(self.nice);
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // A job that panics must not take the thread with it.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, waited) = self
                .filled
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_that_hang_take_no_thread_from_others_until_the_cap_is_reached() {
        let crew = Crew::new("test", 3, 0);
        let (started, is_started) = channel();
        let mut hung = Vec::new();
        for _ in 0..2 {
            let (release, released) = channel::<()>();
            let started = started.clone();
            hung.push(release);
            crew.run(move || {
                started.send(()).unwrap();
                let _ = released.recv();
            });
        }
        is_started.recv().unwrap();
        is_started.recv().unwrap();
        for _ in 0..100 {
            let (done, is_done) = channel();
            crew.run(move || done.send(()).unwrap());
            is_done.recv().unwrap();
        }
        assert_eq!(crew.0.lock().threads, 3);
        drop(hung);
    }

    #[test]
    fn what_is_beyond_the_cap_waits_and_a_panic_costs_no_thread() {
        let crew = Crew::new("test", 1, 0);
        let (done, is_done) = channel();
        crew.run(|| panic!("expected by this test"));
        for number in 0..10 {
            let done = done.clone();
            crew.run(move || done.send(number).unwrap());
        }
        let order: Vec<i32> = is_done.iter().take(10).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        assert_eq!(crew.0.lock().threads, 1);
    }
}
