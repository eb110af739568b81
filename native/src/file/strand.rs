//! Jobs that run one after the other, on whatever thread of a crew is free.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crew::{Crew, Job as CrewJob, Lane, UNKNOWN_LANE};

/// What a step of a job says about it.
pub enum Step {
    /// It is done.
    Done,
    /// It has more to do, for which other strands need not wait.
    Again,
}

type Job<T> = Box<dyn FnMut(&mut T) -> Step + Send>;

/// Invariant: `running` exactly while a turn of this strand is on the crew.
struct Inbox<T> {
    jobs: VecDeque<Job<T>>,
    running: bool,
}

/// A state, and the jobs that change it in the order in which they were given. Each turn on the
/// crew is one step of one job, so that however much there is to do, others have their turns.
pub struct Strand<T> {
    inbox: Mutex<Inbox<T>>,
    state: Mutex<T>,
    lane: AtomicU64,
}

impl<T: Send + 'static> Strand<T> {
    /// A strand over `state`, in no lane that is known.
    pub fn new(state: T) -> Arc<Self> {
        Self::in_lane(state, UNKNOWN_LANE)
    }

    /// A strand over `state`.
    pub fn in_lane(state: T, lane: Lane) -> Arc<Self> {
        let (jobs, running) = Default::default();
        Arc::new(Self {
            inbox: Mutex::new(Inbox { jobs, running }),
            state: Mutex::new(state),
            lane: AtomicU64::new(lane),
        })
    }

    /// Queues a job. It is dropped unrun if the crew can start no thread at all.
    pub fn run(self: &Arc<Self>, crew: &Crew, job: impl FnOnce(&mut T) + Send + 'static) {
        let mut job = Some(job);
        self.run_in_steps(crew, move |state| {
            if let Some(job) = job.take() {
                job(state);
            }
            Step::Done
        });
    }

    /// Queues a job of several steps, as [`Strand::run`].
    pub fn run_in_steps(
        self: &Arc<Self>,
        crew: &Crew,
        job: impl FnMut(&mut T) -> Step + Send + 'static,
    ) {
        let mut inbox = self.inbox();
        inbox.jobs.push_back(Box::new(job));
        if !inbox.running {
            inbox.running = true;
            drop(inbox);
            crew.run(self.lane(), Turn::job(self));
        }
    }

    /// Queues a job that finds the lane in which those after it run.
    pub fn find_lane(self: &Arc<Self>, crew: &Crew, find: impl FnOnce() -> Lane + Send + 'static) {
        let strand = Arc::clone(self);
        self.run(crew, move |_| strand.lane.store(find(), Ordering::Relaxed));
    }

    /// Drops the jobs that have not begun. True if no other is under way either.
    pub fn clear(&self) -> bool {
        let unbegun = std::mem::take(&mut self.inbox().jobs);
        drop(unbegun);
        // A step holds the state from before it takes its job.
        self.state.try_lock().is_ok()
    }

    /// The state as the last job that ran has left it; waits for one that is running.
    pub fn state(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self) -> Lane {
        self.lane.load(Ordering::Relaxed)
    }

    /// Runs one step. True if there is more to do.
    fn step(&self) -> bool {
        // Before the job is taken, so that `clear` sees one that is neither queued nor running.
        let mut state = self.state();
        let next = self.inbox().jobs.pop_front();
        let Some(mut job) = next else {
            return self.more();
        };
        // The jobs behind one that panics must still be run.
        let step = catch_unwind(AssertUnwindSafe(|| job(&mut state)));
        if matches!(step, Ok(Step::Again)) {
            self.inbox().jobs.push_front(job);
        }
        drop(state);
        self.more()
    }

    fn more(&self) -> bool {
        let mut inbox = self.inbox();
        inbox.running = !inbox.jobs.is_empty();
        inbox.running
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on the crew, and whether it was taken. The crew may drop one untaken.
struct Turn<T: Send + 'static>(Arc<Strand<T>>, bool);

impl<T: Send + 'static> Turn<T> {
    fn job(strand: &Arc<Strand<T>>) -> CrewJob {
        let turn = Self(Arc::clone(strand), false);
        CrewJob::new(move || turn.take())
    }

    fn take(mut self) -> Option<(Lane, CrewJob)> {
        self.1 = true;
        let strand = &self.0;
        strand.step().then(|| (strand.lane(), Self::job(strand)))
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
        let crew = Crew::new("test", 4, 4);
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
        let crew = Crew::new("test", 1, 1);
        let (dropped, is_dropped) = channel::<()>();
        strand.run(&crew, move |_| drop(dropped));
        drop(turn);
        assert!(is_dropped.recv().is_err());
        let (done, is_done) = channel();
        strand.run(&crew, move |_| done.send(()).unwrap());
        is_done.recv().unwrap();
    }

    #[test]
    fn a_strand_that_always_has_a_next_job_keeps_no_thread_from_others() {
        let crew = Crew::new("test", 1, 1);
        let busy = Strand::new(());
        let (end, is_ended) = channel::<()>();
        busy.run_in_steps(&crew, move |_| match is_ended.try_recv() {
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Step::Done,
            _ => Step::Again,
        });
        let (done, is_done) = channel();
        Strand::new(()).run(&crew, move |_| done.send(()).unwrap());
        is_done.recv().unwrap();
        drop(end);
    }

    #[test]
    fn what_has_not_begun_can_be_dropped_while_what_has_begun_hangs() {
        let crew = Crew::new("test", 1, 1);
        let strand = Strand::new(());
        let (started, is_started) = channel();
        let (release, released) = channel::<()>();
        strand.run(&crew, move |_| {
            started.send(()).unwrap();
            let _ = released.recv();
        });
        is_started.recv().unwrap();
        let (queued, is_queued) = channel::<()>();
        strand.run(&crew, move |_| drop(queued));
        assert!(!strand.clear());
        assert!(is_queued.recv().is_err());
        drop(release);
        let (done, is_done) = channel();
        strand.run(&crew, move |_| done.send(()).unwrap());
        is_done.recv().unwrap();
    }
}
