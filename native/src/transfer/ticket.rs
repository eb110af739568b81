//! The promise to end an operation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::file::failure::Failure;
use crate::sync::lock;
use crate::wake::Wake;

/// Sentences of failed operations, by token, until they are taken.
pub type Texts = Arc<Mutex<HashMap<u32, String>>>;

/// Invariant: `token` is completed exactly once: by [`Ticket::end`], or when this is dropped, with EAGAIN and no sentence.
pub struct Ticket {
    wake: Arc<Wake>,
    texts: Texts,
    token: u32,
    ended: bool,
}

impl Ticket {
    /// The promise to complete `token`.
    pub fn new(wake: &Arc<Wake>, texts: &Texts, token: u32) -> Self {
        let (wake, texts) = (Arc::clone(wake), Arc::clone(texts));
        Self {
            wake,
            texts,
            token,
            ended: false,
        }
    }

    /// Completes the operation.
    pub fn end(mut self, result: Result<i64, Failure>) {
        self.ended = true;
        match result {
            Ok(value) => self.wake.complete(self.token, 0, value),
            Err(failure) => {
                lock(&self.texts).insert(self.token, failure.text);
                self.wake.complete(self.token, failure.status, 0);
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.ended {
            self.wake.complete(self.token, libc::EAGAIN, 0);
        }
    }
}
