//! Worker threads.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::DataError;

/// What a worker does.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs in the order in which they were given, until the pool is dropped.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Pool {
    /// Starts `workers` threads.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub(crate) fn new(workers: u32) -> Result<Self, DataError> {
        let queue = Arc::new(Queue::default());
        let mut pool = Self { queue: Arc::clone(&queue), workers: Vec::new() };
        for nth in 0..workers {
            let queue = Arc::clone(&queue);
            let thread = Builder::new().name(format!("images {nth}"));
            pool.workers.push(thread.spawn(move || queue.work()).map_err(DataError::Workers)?);
        }
        Ok(pool)
    }

    pub(super) fn push(&self, jobs: impl Iterator<Item = Job>) {
        self.queue.lock().jobs.extend(jobs);
        self.queue.changed.notify_all();
    }
}

impl Queue {
    /// No job runs under the lock, so nothing is half done in it, whoever panicked.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let mut state = self.lock();
            let job = loop {
                if state.is_closed {
                    return;
                }
                match state.jobs.pop_front() {
                    Some(job) => break job,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            // A job tells of its own panic; a worker that ended would leave the others with its work.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.is_closed = true;
        state.jobs.clear();
        drop(state);
        self.queue.changed.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}
