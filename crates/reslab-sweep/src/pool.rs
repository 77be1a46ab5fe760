//! Child processes on slots: started, listened to line by line, asked to end, reaped. Knows nothing of runs.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A device, and how many runs it takes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// `cpu`, `cuda:0`.
    pub device: String,
    /// Runs at once.
    pub jobs: usize,
}

/// How long nothing may happen before the children are looked at again.
const TICK: Duration = Duration::from_millis(20);

/// How long the output of an ended child is waited for: a grandchild may hold the pipe open for ever.
const LINGER: Duration = Duration::from_secs(1);

/// The longest line of a child that is kept, bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// What a child did; `task` is the number that it was started with.
#[derive(Debug)]
pub(crate) enum Happening {
    /// It wrote a line.
    Line { task: usize, line: String },
    /// It ended, and all that it wrote was told.
    Ended { task: usize, status: ExitStatus },
}

enum Message {
    Line(usize, String),
    End(usize),
}

struct Running {
    task: usize,
    place: usize,
    child: Child,
    is_silent: bool,
    ended: Option<(ExitStatus, Instant)>,
}

impl Running {
    /// To its whole process group, as long as it is not reaped.
    fn signal(&self, signal: i32) {
        if self.ended.is_some() {
            return;
        }
        let group = self.child.id() as libc::pid_t;
        // SAFETY: plain system call. The child is not reaped yet, so the number is still its own.
        unsafe { libc::kill(-group, signal) };
    }
}

/// The children that run now, each on a place of a slot.
pub(crate) struct Pool<'a> {
    places: Vec<&'a Slot>,
    running: Vec<Running>,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(slots: &'a [Slot]) -> Self {
        // All devices get a first run before one gets its second.
        let most = slots.iter().map(|slot| slot.jobs).max().unwrap_or(0);
        let places = (0..most).flat_map(|job| slots.iter().filter(move |slot| slot.jobs > job)).collect();
        let (sender, receiver) = channel();
        Self { places, running: Vec::new(), sender, receiver }
    }

    /// Whether anything can ever be started.
    pub(crate) fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// A place that is free, by number.
    pub(crate) fn free_place(&self) -> Option<usize> {
        (0..self.places.len()).find(|place| self.running.iter().all(|r| r.place != *place))
    }

    pub(crate) fn slot(&self, place: usize) -> &'a Slot {
        self.places[place]
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts a child on a free place. Its standard error goes where the command says.
    pub(crate) fn start(&mut self, task: usize, place: usize, mut command: Command) -> io::Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        end_with_parent(&mut command);
        let mut child = command.spawn()?;
        if let Some(output) = child.stdout.take() {
            let sender = self.sender.clone();
            std::thread::spawn(move || listen(task, output, &sender));
        }
        self.running.push(Running { task, place, child, is_silent: false, ended: None });
        Ok(())
    }

    /// Sends a signal to every child and what it started. One that was stopped (SIGSTOP) goes on, or it could not heed it.
    pub(crate) fn signal(&self, signal: i32) {
        for running in &self.running {
            running.signal(signal);
            running.signal(libc::SIGCONT);
        }
    }

    /// The tasks that run now.
    pub(crate) fn tasks(&self) -> Vec<usize> {
        self.running.iter().filter(|r| r.ended.is_none()).map(|r| r.task).collect()
    }

    /// Ends a task and what it started, at once.
    pub(crate) fn kill(&self, task: usize) {
        for running in self.running.iter().filter(|r| r.task == task) {
            running.signal(libc::SIGKILL);
        }
    }

    /// What happened since the last call; waits a tick for something.
    pub(crate) fn poll(&mut self) -> Vec<Happening> {
        let mut happenings = Vec::new();
        match self.receiver.recv_timeout(TICK) {
            Ok(message) => self.take(message, &mut happenings),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(message) = self.receiver.try_recv() {
            self.take(message, &mut happenings);
        }
        for running in self.running.iter_mut().filter(|r| r.ended.is_none()) {
            // Only a child that somebody else reaped gives an error, and nobody else does.
            running.ended = running.child.try_wait().unwrap_or_default().map(|status| (status, Instant::now()));
        }
        let over =
            |r: &Running| r.ended.filter(|(_, at)| r.is_silent || at.elapsed() > LINGER).map(|(status, _)| status);
        let ended = self.running.iter().filter_map(|r| Some(Happening::Ended { task: r.task, status: over(r)? }));
        happenings.extend(ended);
        self.running.retain(|r| over(r).is_none());
        happenings
    }

    fn take(&mut self, message: Message, happenings: &mut Vec<Happening>) {
        match message {
            Message::Line(task, line) => happenings.push(Happening::Line { task, line }),
            Message::End(task) => {
                self.running.iter_mut().filter(|r| r.task == task).for_each(|r| r.is_silent = true);
            }
        }
    }
}

impl Drop for Pool<'_> {
    /// Nothing runs on without its parent, even when that unwinds.
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        for running in &mut self.running {
            let _ = running.child.wait();
        }
    }
}

fn listen(task: usize, output: impl Read, sender: &Sender<Message>) {
    let mut reader = BufReader::new(output);
    loop {
        let mut bytes = Vec::new();
        // A stream without line feeds must not fill the memory.
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        if sender.send(Message::Line(task, line)).is_err() {
            break;
        }
    }
    let _ = sender.send(Message::End(task));
}

/// The child gets a process group of its own, so that the terminal's Ctrl-C reaches it once (through us), and SIGTERM
/// when we die, so that nothing runs on as an orphan.
fn end_with_parent(command: &mut Command) {
    let parent = std::process::id() as libc::pid_t;
    let tie = move || {
        // SAFETY: these calls are async-signal-safe; nothing is allocated between fork and exec.
        unsafe {
            // A script's background job ignores SIGINT, and what is ignored stays so over exec: the child would not hear
            // that it is to save.
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the call above took hold.
            if libc::getppid() != parent {
                libc::_exit(1);
            }
        }
        Ok(())
    };
    command.process_group(0);
    // SAFETY: `tie` only makes the system calls above.
    unsafe { command.pre_exec(tie) };
}
