//! Ctrl-C and SIGTERM: the first asks the work to save and stop, one more ends it at once.
//!
//! Crate `ctrlc` runs one handler for all signals and can't say which one came, but the exit code must
//! (130 or 143): so the handler is set here. It only touches atomics, which a signal handler may.

use reslab_sweep::Stop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What was asked for so far; a sweep looks at it.
pub(crate) static STOP: Stop = Stop::new();
/// Set by the first signal; a run looks at it between steps.
pub(crate) static STOPPING: AtomicBool = AtomicBool::new(false);
static LAST_PRESS: AtomicU32 = AtomicU32::new(2);

/// Who answers the second signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    /// The handler: the program ends at once.
    Ends,
    /// The sweep, which ends its runs first; a third one ends the program.
    IsHeard,
}

extern "C" fn on_signal(signal: libc::c_int) {
    STOP.request(signal);
    STOPPING.store(true, Ordering::SeqCst);
    if STOP.presses() >= LAST_PRESS.load(Ordering::SeqCst) {
        // SAFETY: _exit is async-signal-safe; nothing of this process is touched again.
        unsafe { libc::_exit(128 + signal) }
    }
}

/// From now on the first SIGINT, SIGTERM or SIGHUP asks to stop.
pub(crate) fn watch(second: Second) {
    LAST_PRESS.store(if second == Second::Ends { 2 } else { 3 }, Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: zero is a valid sigaction; the handler is a static function that only uses atomics and _exit.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, &mut before);
            // Under nohup the end of the terminal is to be ignored.
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &before, std::ptr::null_mut());
            }
        }
    }
}

/// A file that grows beyond a limit (`ulimit -f`) is from now on an error of its writing, which names it, instead of the
/// end of the process. The processes that this one starts inherit that.
pub(crate) fn outlive_file_limits() {
    // SAFETY: a plain system call.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
