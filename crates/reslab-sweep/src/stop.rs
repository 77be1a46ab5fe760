//! The wish to stop, as a signal handler can say it: atomics only.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// A wish to stop: the first asks all runs to save and end, the second ends them at once.
#[derive(Debug, Default)]
pub struct Stop {
    presses: AtomicU32,
    signal: AtomicI32,
}

impl Stop {
    /// No wish yet. `const`, so that it can be a static that a signal handler reaches.
    pub const fn new() -> Self {
        Self { presses: AtomicU32::new(0), signal: AtomicI32::new(0) }
    }

    /// Asks to stop because of `signal` (SIGINT, SIGTERM). Safe in a signal handler.
    pub fn request(&self, signal: i32) {
        // The first signal is the one that the exit code tells.
        let _ = self.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        self.presses.fetch_add(1, Ordering::SeqCst);
    }

    /// How often it was asked.
    pub fn presses(&self) -> u32 {
        self.presses.load(Ordering::SeqCst)
    }

    /// The first signal, if it was asked.
    pub fn signal(&self) -> Option<i32> {
        (self.presses() > 0).then(|| self.signal.load(Ordering::SeqCst))
    }
}
