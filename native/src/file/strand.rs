//! Jobs that run one after the other, on whatever thread of a crew is free.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crew::Crew;

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Invariant: `running` exactly while a thread of the crew empties `jobs` or was asked to.
struct Inbox<T> {
    jobs: VecDeque<Job<T>>,
    running: bool,
}

/// A state, and the jobs that change it in the order in which they were given. It holds a thread
/// only while there is a job to do.
pub struct Strand<T> {
    inbox: Mutex<Inbox<T>>,
    state: Mutex<T>,
}

impl<T: Send + 'static> Strand<T> {
    /// A strand over `state`.
    pub fn new(state: T) -> Arc<Self> {
        let (jobs, running) = Default::default();
        Arc::new(Self {
            inbox: Mutex::new(Inbox { jobs, running }),
            state: Mutex::new(state),
        })
    }

    /// Queues a job. It is dropped unrun if the crew can start no thread at all.
    pub fn run(self: &Arc<Self>, crew: &Crew, job: impl FnOnce(&mut T) + Send + 'static) {
        let mut inbox = self.inbox();
        inbox.jobs.push_back(Box::new(job));
        if !inbox.running {
            inbox.running = true;
            drop(inbox);
            let turn = Turn(Arc::clone(self), false);
            crew.run(move || turn.take());
        }
    }

    /// The state as the last job that ran has left it; waits for one that is running.
    pub fn state(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn empty(&self) {
        loop {
            let mut inbox = self.inbox();
            let Some(job) = inbox.jobs.pop_front() else {
                inbox.running = false;
                return;
            };
            drop(inbox);
            let mut state = self.state();
            // The jobs behind one that panics must still be run.
            let _ = catch_unwind(AssertUnwindSafe(|| job(&mut state)));
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's turn, and whether it was taken. The crew may drop one untaken.
struct Turn<T: Send + 'static>(Arc<Strand<T>>, bool);

impl<T: Send + 'static> Turn<T> {
    fn take(mut self) {
        self.1 = true;
        self.0.empty();
    }
}

impl<T: Send + 'static> Drop for Turn<T> {
    fn drop(&mut self) {
        if !self.1 {
            let mut inbox = self.0.inbox();
            inbox.running = false;
            let unrun = std::mem::take(&mut inbox.jobs);
            drop(inbox);
            drop(unrun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_run_in_order_and_go_on_after_a_panic() {
        let crew = Crew::new("test", 4, 0);
        let strand = Strand::new(Vec::new());
        let (done, is_done) = channel();
        for number in 0..1000 {
            let done = done.clone();
            strand.run(&crew, move |seen: &mut Vec<i32>| {
                seen.push(number);
                assert_ne!(number, 500, "expected by this test");
                done.send(()).unwrap();
            });
        }
        assert_eq!(is_done.iter().take(999).count(), 999);
        assert_eq!(*strand.state(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_turn_that_is_never_taken_drops_its_jobs_and_the_next_one_runs() {
        let strand = Strand::new(0);
        strand.inbox().running = true;
        let turn = Turn(Arc::clone(&strand), false);
        let crew = Crew::new("test", 1, 0);
        let (dropped, is_dropped) = channel::<()>();
        strand.run(&crew, move |_| drop(dropped));
        drop(turn);
        assert!(is_dropped.recv().is_err());
        let (done, is_done) = channel();
        strand.run(&crew, move |_| done.send(()).unwrap());
        is_done.recv().unwrap();
    }
}
