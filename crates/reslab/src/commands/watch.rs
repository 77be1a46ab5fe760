//! `reslab watch DIR`: a sweep that is running, live. It reads the folder and nothing else, so ending it ends nothing else.

use super::report::require_plan;
use crate::monitor::{Monitor, Next, Screen, Told, clock_after, snapshot};
use crate::outcome::Exit;
use crate::signals::{self, STOP, Second};
use crate::terminal::{draws_screens, is_said, say};
use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The folder is looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time that one look may spend on rows, so that keys are answered at once.
const PATIENCE: Duration = Duration::from_millis(100);
/// Keys and signals are looked for this often.
const TICK: Duration = Duration::from_millis(100);

/// Arguments of `watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sweep's folder
    dir: PathBuf,
    /// Print what is known now, and end
    #[arg(long)]
    once: bool,
    /// Print a line per change, until the sweep is over; so it is too where standard output is no terminal
    #[arg(long, conflicts_with = "once")]
    plain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    require_plan(&arguments.dir)?;
    let mut monitor = Monitor::open(&arguments.dir)?;
    if arguments.once {
        while monitor.refresh(0, PATIENCE) {}
        say(snapshot(&monitor));
        return Ok(Exit::Done);
    }
    signals::watch(Second::Ends);
    if arguments.plain || !draws_screens() {
        return Ok(follow(&mut monitor));
    }
    // A panic restores the terminal too, before it is told.
    let mut terminal = ratatui::try_init().context("the terminal can't be drawn on; --plain prints lines")?;
    let result = live(&mut terminal, &mut monitor);
    ratatui::restore();
    result
}

/// Lines until the sweep is over; 1 where a run has failed.
fn follow(monitor: &mut Monitor) -> Exit {
    let mut told = Told::default();
    loop {
        while monitor.refresh(0, PATIENCE) && STOP.signal().is_none() {}
        // A reader that went away (`| head`) wants no more.
        let is_read = told.changes(monitor).into_iter().all(is_said);
        if let Some(signal) = STOP.signal() {
            return Exit::Signal(signal);
        }
        if monitor.is_over() {
            say(format_args!("finished: {}", monitor.headline()));
        }
        if monitor.is_over() || !is_read {
            return if monitor.counts().failed > 0 { Exit::Failed } else { Exit::Done };
        }
        let next = Instant::now() + LOOK_EVERY;
        while Instant::now() < next && STOP.signal().is_none() {
            std::thread::sleep(TICK);
        }
    }
}

/// The screen until a key ends it.
fn live(terminal: &mut DefaultTerminal, monitor: &mut Monitor) -> Result<Exit> {
    monitor.refresh(0, PATIENCE);
    let mut screen = Screen::new(monitor.runs.iter().position(|run| run.is_running()).unwrap_or(0));
    let mut looked = Instant::now();
    loop {
        let until = monitor.seconds_left().and_then(clock_after);
        terminal.draw(|frame| screen.draw(frame, monitor, until.as_deref()))?;
        loop {
            if let Some(signal) = STOP.signal() {
                return Ok(Exit::Signal(signal));
            }
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(key) => match screen.key(key, monitor.runs.len()) {
                        Next::GoOn => break,
                        Next::Quit => return Ok(Exit::Done),
                        Next::Interrupt => return Ok(Exit::Signal(libc::SIGINT)),
                    },
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
            if looked.elapsed() >= LOOK_EVERY {
                // While there is a backlog the next look comes at once.
                let has_more = monitor.refresh(screen.chosen(), PATIENCE);
                looked = if has_more { looked } else { Instant::now() };
                break;
            }
        }
    }
}
