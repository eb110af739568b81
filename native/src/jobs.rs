//! A few threads of our own for calls that may be slow, so that they never take one of the pool
//! that Deno's file operations share.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Worker threads behind a bounded queue. Dropping it lets the workers end after what is queued;
/// a call that hangs is not waited for.
pub struct Jobs {
    queue: SyncSender<Job>,
}

/// The queue is full: the caller says so instead of waiting.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

impl Jobs {
    /// Starts `workers` threads over a queue of `depth` jobs.
    pub fn start(workers: usize, depth: usize) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel::<Job>(depth);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..workers {
            let jobs = Arc::clone(&jobs);
            thread::Builder::new()
                .name(format!("guestd-job-{number}"))
                .stack_size(256 << 10)
                .spawn(move || work(&jobs))?;
        }
        Ok(Self { queue })
    }

    /// Queues a job.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        match self.queue.try_send(Box::new(job)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Busy),
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that panics must not take the worker with it.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_full_queue_is_said_and_a_panic_costs_no_worker() {
        let jobs = Jobs::start(1, 1).unwrap();
        let (started, is_started) = channel();
        let (release, released) = channel::<()>();
        jobs.run(move || {
            started.send(()).unwrap();
            let _ = released.recv();
            panic!("expected by this test");
        })
        .unwrap();
        is_started.recv().unwrap();
        let (done, is_done) = channel();
        jobs.run(move || done.send(()).unwrap()).unwrap();
        assert_eq!(jobs.run(|| ()), Err(Busy));
        release.send(()).unwrap();
        is_done.recv().unwrap();
    }
}
