//! Threads for transfers, as many as have something to do at the moment.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What jobs have in common that may wait for the same disk: the number of its file system.
pub type Lane = u64;

/// The lane of jobs that do not know their file system yet.
pub const UNKNOWN_LANE: Lane = Lane::MAX;

/// The lane of jobs that wait for no disk.
pub const NO_DISK_LANE: Lane = Lane::MAX - 1;

/// Something to do, and possibly more of it, for which others need not wait.
pub struct Job(Box<dyn FnOnce() -> Option<(Lane, Job)> + Send>);

impl Job {
    /// A job that gives what is to be done after it, if anything.
    pub fn new(work: impl FnOnce() -> Option<(Lane, Job)> + Send + 'static) -> Self {
        Self(Box::new(work))
    }
}

/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 << 10;

/// Jobs of one lane: `admitted` are ready or run, `waiting` come after them.
#[derive(Default)]
struct Waiting {
    admitted: usize,
    waiting: VecDeque<Job>,
}

/// Invariant: `idle` threads of `threads` are inside the wait. Of each lane at most `lane_cap` jobs
/// are admitted, all of them if there are not more; a lane without jobs is not in `lanes`.
#[derive(Default)]
struct State {
    ready: VecDeque<(Lane, Job)>,
    lanes: HashMap<Lane, Waiting>,
    threads: usize,
    idle: usize,
}

struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    name: &'static str,
    cap: usize,
    lane_cap: usize,
}

/// Threads that start when there is work for them and end when there is none. A job is a piece of
/// one transfer, and what is more of the same goes behind what waits, so that many transfers take
/// turns. A disk that hangs holds as many threads as a lane may have; what is beyond waits its turn.
#[derive(Clone)]
pub struct Crew(Arc<Shared>);

impl Crew {
    /// A crew of at most `cap` threads, `lane_cap` of them for one lane; none of them started.
    pub fn new(name: &'static str, cap: usize, lane_cap: usize) -> Self {
        let (state, filled) = Default::default();
        Self(Arc::new(Shared {
            state,
            filled,
            name,
            cap,
            lane_cap,
        }))
    }

    /// Queues a job. It is dropped unrun if no thread at all can be started.
    pub fn run(&self, lane: Lane, job: Job) {
        let mut state = self.0.lock();
        state.admit(lane, job, self.0.lane_cap);
        self.0.staff(state, 0);
    }
}

impl State {
    fn admit(&mut self, lane: Lane, job: Job, lane_cap: usize) {
        let jobs = self.lanes.entry(lane).or_default();
        if jobs.admitted < lane_cap {
            jobs.admitted += 1;
            self.ready.push_back((lane, job));
        } else {
            jobs.waiting.push_back(job);
        }
    }

    /// A job of `lane` has ended: another one takes its place.
    fn release(&mut self, lane: Lane) {
        let Some(jobs) = self.lanes.get_mut(&lane) else {
            return;
        };
        match jobs.waiting.pop_front() {
            Some(next) => self.ready.push_back((lane, next)),
            None => {
                jobs.admitted -= 1;
                if jobs.admitted == 0 {
                    self.lanes.remove(&lane);
                }
            }
        }
    }
}

impl Shared {
    /// Sees to it that somebody takes what is ready, besides `takers` threads that look anyway.
    fn staff(self: &Arc<Self>, mut state: MutexGuard<'_, State>, takers: usize) {
        if state.ready.len() <= takers {
            return;
        }
        if state.ready.len() <= state.idle + takers || state.threads >= self.cap {
            drop(state);
            self.filled.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name(self.name.into())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work());
        if started.is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            let orphans = match state.threads {
                0 => (
                    std::mem::take(&mut state.ready),
                    std::mem::take(&mut state.lanes),
                ),
                _ => Default::default(),
            };
            drop(state);
            drop(orphans);
        }
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((lane, job)) = state.ready.pop_front() {
                drop(state);
                // A job that panics must not take the thread with it.
                let more = catch_unwind(AssertUnwindSafe(job.0)).ok().flatten();
                state = self.lock();
                state.release(lane);
                if let Some((lane, job)) = more {
                    state.admit(lane, job, self.lane_cap);
                }
                self.staff(state, 1);
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
            if waited.timed_out() && state.ready.is_empty() {
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
    use std::sync::mpsc::{Receiver, Sender, channel};

    fn job(work: impl FnOnce() + Send + 'static) -> Job {
        Job::new(move || {
            work();
            None
        })
    }

    /// Jobs of a lane that hang until what is returned is dropped; the first `running` have begun.
    fn hang(crew: &Crew, lane: Lane, count: usize, running: usize) -> Vec<Sender<()>> {
        let (started, is_started) = channel();
        let mut hung = Vec::new();
        for _ in 0..count {
            let (release, released) = channel::<()>();
            let started = started.clone();
            hung.push(release);
            crew.run(
                lane,
                job(move || {
                    let _ = started.send(());
                    let _ = released.recv();
                }),
            );
        }
        assert_eq!(is_started.iter().take(running).count(), running);
        hung
    }

    fn done(crew: &Crew, lane: Lane) -> Receiver<()> {
        let (done, is_done) = channel();
        crew.run(lane, job(move || done.send(()).unwrap()));
        is_done
    }

    #[test]
    fn jobs_that_hang_take_no_thread_from_others_until_the_cap_is_reached() {
        let crew = Crew::new("test", 3, 3);
        let hung = hang(&crew, 1, 2, 2);
        for _ in 0..100 {
            done(&crew, 1).recv().unwrap();
        }
        assert_eq!(crew.0.lock().threads, 3);
        drop(hung);
    }

    #[test]
    fn a_lane_that_hangs_stops_no_other_and_all_its_jobs_run_in_the_end() {
        let crew = Crew::new("test", 3, 2);
        let hung = hang(&crew, 1, 50, 2);
        let last = done(&crew, 1);
        for _ in 0..100 {
            done(&crew, 2).recv().unwrap();
        }
        assert!(last.try_recv().is_err());
        drop(hung);
        last.recv().unwrap();
        // The thread that ran it notes that behind it.
        while !crew.0.lock().lanes.is_empty() {
            thread::yield_now();
        }
    }

    #[test]
    fn what_has_always_more_to_do_takes_turns_with_what_waits() {
        fn endless(end: Receiver<()>) -> Option<(Lane, Job)> {
            let ended = end.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected);
            (!ended).then(|| (1, Job::new(move || endless(end))))
        }
        for caps in [(2, 2), (1, 1)] {
            let crew = Crew::new("test", caps.0, caps.1);
            let mut ends = Vec::new();
            for _ in 0..4 {
                let (end, is_ended) = channel();
                ends.push(end);
                crew.run(1, Job::new(move || endless(is_ended)));
            }
            done(&crew, 1).recv().unwrap();
            drop(ends);
        }
    }

    #[test]
    fn what_is_beyond_the_cap_waits_and_a_panic_costs_no_thread() {
        let crew = Crew::new("test", 1, 1);
        let (done, is_done) = channel();
        crew.run(1, job(|| panic!("expected by this test")));
        for number in 0..10 {
            let done = done.clone();
            crew.run(1, job(move || done.send(number).unwrap()));
        }
        let order: Vec<i32> = is_done.iter().take(10).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        assert_eq!(crew.0.lock().threads, 1);
    }
}
