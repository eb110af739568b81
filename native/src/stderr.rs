//! Standard error, written to by a thread of its own: a log that nobody reads must not stop the daemon, and one that is
//! read slowly, as that of a guest on a serial line is, must not lose what comes in a burst.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, write as write_some};

use crate::sync::{lock, start_thread};

/// Most that waits to be written, in bytes.
const QUEUE_BYTES: usize = 128 << 10;
/// So many bytes are worth writing at once.
const BATCH_BYTES: usize = 16 << 10;

/// The thread rests so long from one writing to the next, unless there is a batch before. The lines of a busy daemon, two
/// for each command, go many at a time then, and neither this thread nor the log's reader is woken for each.
const REST: Duration = Duration::from_millis(10);

/// What waits to be written.
///
/// Invariant: `idle` is true exactly while all was written and the thread waits for more. `hurry` is true once somebody
/// waits for the end of it.
struct Queue {
    bytes: Vec<u8>,
    idle: bool,
    hurry: bool,
}

struct Writer {
    queue: Mutex<Queue>,
    /// Signalled when the thread is given something after a pause, or a batch; when it has become idle; and to hurry.
    changed: Condvar,
}

static WRITER: Writer = Writer {
    queue: Mutex::new(Queue {
        bytes: Vec::new(),
        idle: true,
        hurry: false,
    }),
    changed: Condvar::new(),
};

/// Has `line` written whole, sometime. `EAGAIN` where too much waits already.
pub fn write(line: &[u8]) -> Result<(), Errno> {
    static STARTED: OnceLock<bool> = OnceLock::new();
    if !STARTED.get_or_init(|| start_thread("guestd-log", || WRITER.run()).is_ok()) {
        return Err(Errno::AGAIN);
    }
    let mut queue = lock(&WRITER.queue);
    if queue.bytes.len() + line.len() > QUEUE_BYTES {
        return Err(Errno::AGAIN);
    }
    queue.bytes.extend_from_slice(line);
    // With more than a batch the thread knows already.
    let batch = queue.bytes.len() >= BATCH_BYTES && queue.bytes.len() - line.len() < BATCH_BYTES;
    if std::mem::take(&mut queue.idle) || batch {
        WRITER.changed.notify_all();
    }
    Ok(())
}

/// Waits until all was written, at most `patience`.
pub fn flush(patience: Duration) {
    let mut queue = lock(&WRITER.queue);
    queue.hurry = true;
    WRITER.changed.notify_all();
    let busy = |queue: &mut Queue| !queue.idle;
    drop(WRITER.changed.wait_timeout_while(queue, patience, busy));
}

impl Writer {
    fn run(&self) {
        let mut taken = Vec::new();
        loop {
            std::mem::swap(&mut self.next().bytes, &mut taken);
            write_all(&taken);
            taken.clear();
            let resting = |queue: &mut Queue| !queue.hurry && queue.bytes.len() < BATCH_BYTES;
            drop(
                self.changed
                    .wait_timeout_while(lock(&self.queue), REST, resting),
            );
        }
    }

    /// The queue, once there is something in it.
    fn next(&self) -> MutexGuard<'_, Queue> {
        let mut queue = lock(&self.queue);
        while queue.bytes.is_empty() {
            queue.idle = true;
            self.changed.notify_all();
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue
    }
}

/// Writes to standard error, waiting for its reader. What nobody can read any more is dropped.
fn write_all(mut bytes: &[u8]) {
    let stderr = std::io::stderr();
    while !bytes.is_empty() {
        match write_some(&stderr, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // Whoever shares it may have made it one that does not wait.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None);
            }
            Err(_) => return,
        }
    }
}
