//! The live view: arms, runs, and the loss of the run that is chosen.

use super::cells::{columns, figure, spikes, validation};
use super::spark::thin;
use super::{ArmView, Monitor, RunView, State};
use crate::watch::short;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Cell, Chart, Dataset, GraphType, Paragraph, Row, Table, TableState, Wrap};
use reslab_sweep::span;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// Runs that a page key moves by.
const PAGE: isize = 10;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Quit,
    /// Ctrl-C, which ends the program as it does elsewhere.
    Interrupt,
}

/// What a person has chosen.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    table: TableState,
}

impl Screen {
    /// With this run chosen.
    pub(crate) fn new(chosen: usize) -> Self {
        Self { table: TableState::new().with_selected(chosen) }
    }

    /// The run that is chosen.
    pub(crate) fn chosen(&self) -> usize {
        self.table.selected().unwrap_or(0)
    }

    /// A key was pressed, and there are so many runs.
    pub(crate) fn key(&mut self, key: KeyEvent, runs: usize) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::GoOn;
        }
        let step = match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Next::Interrupt,
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::PageDown => PAGE,
            KeyCode::PageUp => -PAGE,
            KeyCode::Home => isize::MIN / 2,
            KeyCode::End => isize::MAX / 2,
            _ => return Next::GoOn,
        };
        let at = (self.chosen() as isize + step).clamp(0, runs.saturating_sub(1) as isize);
        self.table.select(Some(at as usize));
        Next::GoOn
    }

    /// Draws everything; `until` is the time of day when the sweep will be over.
    pub(crate) fn draw(&mut self, frame: &mut Frame, monitor: &Monitor, until: Option<&str>) {
        // A plan that was changed may have fewer runs.
        self.table.select(Some(self.chosen().min(monitor.runs.len().saturating_sub(1))));
        let all = frame.area();
        let detail = if all.height >= 20 { (all.height / 3).min(14) } else { 0 };
        let rows = [Constraint::Length(3), Constraint::Min(3), Constraint::Length(detail), Constraint::Length(1)];
        let [head, body, below, foot] = Layout::vertical(rows).areas(all);
        draw_head(frame, head, monitor, until);
        let arms = monitor.arms();
        let [left, right] = if all.width >= 130 {
            Layout::horizontal([Constraint::Length(44), Constraint::Min(60)]).areas(body)
        } else {
            let high = (arms.len() as u16 + 2).min(body.height / 3);
            Layout::vertical([Constraint::Length(if high < 3 { 0 } else { high }), Constraint::Min(3)]).areas(body)
        };
        draw_arms(frame, left, monitor, &arms);
        self.draw_runs(frame, right, monitor);
        if let Some(run) = monitor.runs.get(self.chosen()).filter(|_| detail > 0) {
            draw_run(frame, below, run);
        }
        let keys = " q quit   up/down j/k choose a run   quitting does not touch the sweep";
        frame.render_widget(Paragraph::new(keys).style(DIM), foot);
    }

    fn draw_runs(&mut self, frame: &mut Frame, area: Rect, monitor: &Monitor) {
        let columns = columns(area.width.saturating_sub(2), monitor);
        let head = Row::new(columns.iter().map(|column| column.head)).style(BOLD);
        let rows = monitor.runs.iter().map(|run| {
            Row::new(columns.iter().map(|column| {
                let cell = Cell::from((column.show)(run, column.width as usize));
                if column.head == "state" { cell.style(colour(run)) } else { cell }
            }))
        });
        let widths = columns.iter().map(|column| Constraint::Length(column.width));
        let table = Table::new(rows, widths)
            .header(head)
            .row_highlight_style(CHOSEN)
            .block(Block::bordered().title(format!(" runs ({}) ", monitor.runs.len())));
        frame.render_stateful_widget(table, area, &mut self.table);
    }
}

fn colour(run: &RunView) -> Style {
    match &run.state {
        State::Running => Style::new().fg(Color::Cyan),
        State::Done(_) if run.word() == "done" => Style::new().fg(Color::Green),
        State::Done(_) => Style::new().fg(Color::Magenta),
        State::Failed(_) | State::Damaged => Style::new().fg(Color::Red),
        State::Stopped => Style::new().fg(Color::Yellow),
        State::Waiting => DIM,
    }
}

fn draw_head(frame: &mut Frame, area: Rect, monitor: &Monitor, until: Option<&str>) {
    let [title, state, gauge] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
    let name = Span::styled(format!(" {}", monitor.plan.name), BOLD);
    let question = Span::raw(format!("  {}", monitor.plan.question.replace('\n', " ")));
    frame.render_widget(Line::from(vec![name, question]), title);
    let until = until.map_or(String::new(), |time| format!(", until {time}"));
    let words = match (&monitor.problem, monitor.is_over()) {
        (Some(problem), _) => format!(" {problem}"),
        (None, true) => format!(" finished: {}", monitor.headline()),
        (None, false) => format!(" {}{until}", monitor.headline()),
    };
    frame.render_widget(Line::from(words), state);
    let share = monitor.share().clamp(0.0, 1.0);
    let percent = format!(" {:3.0} % ", 100.0 * share);
    let room = (gauge.width as usize).saturating_sub(percent.len() + 1);
    frame.render_widget(Line::from(percent + &bar(share, room)), gauge);
}

/// A share as so many characters, which can be told apart without colours.
fn bar(share: f64, width: usize) -> String {
    let full = ((share * width as f64).floor() as usize).min(width);
    format!("{}{}", "\u{2588}".repeat(full), "\u{2591}".repeat(width - full))
}

fn draw_arms(frame: &mut Frame, area: Rect, monitor: &Monitor, arms: &[ArmView]) {
    if area.height < 3 {
        return;
    }
    let rows = arms.iter().map(|arm| {
        let metric = arm.metric.map_or(String::new(), |mean| monitor.show(mean));
        let cells = [short(&arm.name), bar(arm.share, 10), format!("{}/{}", arm.done, arm.runs), metric];
        Row::new(cells)
    });
    let longest = arms.iter().map(|arm| short(&arm.name).chars().count()).max().unwrap_or(3) as u16;
    let name = longest.min(area.width.saturating_sub(31).max(8));
    let widths = [name, 10, 7, 9].map(Constraint::Length);
    let title = format!(" arms: done, mean {} ", monitor.plan.metric);
    frame.render_widget(Table::new(rows, widths).block(Block::bordered().title(title)), area);
}

/// The run that is chosen: its loss, and what else is known.
fn draw_run(frame: &mut Frame, area: Rect, run: &RunView) {
    let block = Block::bordered().title(format!(" {}: {} ", run.label(), run.word()));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [facts, chart] = Layout::horizontal([Constraint::Length(30), Constraint::Min(10)]).areas(inner);
    frame.render_widget(Paragraph::new(facts_of(run)).wrap(Wrap { trim: true }), facts);
    let points = thin(&run.losses, 2 * chart.width as usize);
    if points.is_empty() {
        frame.render_widget(Paragraph::new("no training loss recorded yet").style(DIM), chart);
        return;
    }
    let spikes: Vec<(f64, f64)> = run.spikes.iter().map(|at| (*at as f64, run.losses[*at])).collect();
    let spikes: Vec<(f64, f64)> = spikes.into_iter().filter(|spike| spike.1.is_finite()).collect();
    let curve = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).data(&points);
    let marks = Dataset::default().marker(Marker::Dot).style(Style::new().fg(Color::Red)).data(&spikes);
    let (low, high) = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (p.1.min(l), p.1.max(h)));
    let end = run.losses.len().saturating_sub(1).max(1);
    let x = Axis::default().bounds([0.0, end as f64]).labels(["0".to_owned(), format!("step {}", end)]);
    let y =
        Axis::default().bounds([low, if high > low { high } else { low + 1.0 }]).labels([figure(low), figure(high)]);
    frame.render_widget(Chart::new(vec![curve, marks]).x_axis(x).y_axis(y), chart);
}

fn facts_of(run: &RunView) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(Line::from(format!("{name} {value}")));
        }
    };
    if let State::Failed(failed) = &run.state {
        put("failed:", failed.message.lines().next().unwrap_or_default().to_owned());
    }
    put("damaged:", run.problem.clone().unwrap_or_default());
    if let Some(row) = &run.last {
        put("loss", figure(row.loss));
        put("grad norm", figure(row.grad_norm));
        put("lr", format!("{:.2e}", row.lr));
    }
    put("validation", validation(run));
    put("spikes", spikes(run));
    put("step takes", run.seconds_per_step().map_or(String::new(), |pace| format!("{} s", figure(pace))));
    put("left", run.seconds_left().map_or(String::new(), span));
    put("on", run.device.clone().unwrap_or_default());
    if let Some(done) = run.done() {
        done.metrics.iter().for_each(|(name, value)| put(name, figure(*value)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Board, FINISHED, LONG};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// The lines of a drawn screen.
    fn drawn(screen: &mut Screen, monitor: &Monitor, (width, height): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame, monitor, Some("14:05"))).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    /// The only line that has all of these.
    #[track_caller]
    fn line<'a>(lines: &'a [String], parts: &[&str]) -> &'a str {
        let found: Vec<&String> = lines.iter().filter(|line| parts.iter().all(|part| line.contains(part))).collect();
        assert_eq!(found.len(), 1, "{parts:?} in\n{}", lines.join("\n"));
        found[0]
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Next {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE), 4)
    }

    #[test]
    fn a_running_sweep_shows_runs_states_arms_losses_spikes_devices_and_time_left() {
        let board = Board::new(&["plain", "gated"], 2);
        let _lock = board.runs(0, 0..150).spike(0, 150).runs(0, 151..160).hold(0);
        board.runs(1, 0..200).finish(1, FINISHED);
        board.runs(2, 0..50).fail(2);
        let mut screen = Screen::new(0);
        let lines = drawn(&mut screen, &board.monitor(), (120, 30));
        line(&lines, &[" demo  Does it train?"]);
        line(&lines, &["1 of 4 done, 1 running, 1 waiting, 1 failed; about 8 min left, until 14:05"]);
        line(&lines, &[" 51 %"]);
        line(&lines, &["plain", "1/2", "70.00 %"]);
        line(&lines, &["gated ", " 0/2", "\u{2588}\u{2591}\u{2591}"]);
        line(&lines, &["run", "state", "step", "loss", "val", "spikes", "left", "device", "loss curve"]);
        let running = line(&lines, &["plain-s0 ", "running", "160/200", "1.2050", "50.00 %", "1 min 20 s", "cpu"]);
        let curve = running.rsplit("cpu").next().unwrap();
        assert_eq!(curve.matches('\u{2588}').count(), 1, "one spike stands out of {curve:?}");
        line(&lines, &["plain-s1 ", "done", "200/200"]);
        line(&lines, &["gated-s0 ", "failed: hang", "50/200"]);
        line(&lines, &["gated-s1 ", "waiting", "0/200"]);
        line(&lines, &[" plain-s0: running "]);
        line(&lines, &["grad norm 1.5000"]);
        line(&lines, &["spikes 1"]);
        line(&lines, &["q quit"]);
    }

    #[test]
    fn another_run_is_chosen_by_keys_and_the_choice_stays_among_the_runs() {
        let board = Board::new(&["plain", "gated"], 2);
        board.runs(2, 0..50).fail(2);
        let mut screen = Screen::new(0);
        for (code, chosen) in [
            (KeyCode::Down, 1),
            (KeyCode::Char('j'), 2),
            (KeyCode::Char('k'), 1),
            (KeyCode::Up, 0),
            (KeyCode::Up, 0),
            (KeyCode::PageDown, 3),
            (KeyCode::Home, 0),
            (KeyCode::End, 3),
            (KeyCode::Char('j'), 3),
            (KeyCode::Char('x'), 3),
        ] {
            assert_eq!((press(&mut screen, code), screen.chosen()), (Next::GoOn, chosen), "{code:?}");
        }
        press(&mut screen, KeyCode::Up);
        let mut monitor = board.monitor();
        let lines = drawn(&mut screen, &monitor, (120, 30));
        line(&lines, &[" gated-s0: failed: hang "]);
        line(&lines, &["failed: no step for 30 min"]);
        Board::plan(&["plain"], 1).write(board.dir()).unwrap();
        monitor.refresh(0, LONG);
        line(&drawn(&mut screen, &monitor, (120, 30)), &[" plain-s0: waiting "]);
        assert_eq!(screen.chosen(), 0);
    }

    #[test]
    fn q_esc_and_ctrl_c_end_it_and_a_released_key_does_nothing() {
        let mut screen = Screen::new(0);
        assert_eq!([KeyCode::Char('q'), KeyCode::Esc].map(|code| press(&mut screen, code)), [Next::Quit; 2]);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(ctrl_c, 4), Next::Interrupt);
        assert_eq!(press(&mut screen, KeyCode::Char('c')), Next::GoOn);
        let released = KeyEvent { kind: KeyEventKind::Release, ..KeyEvent::from(KeyCode::Char('q')) };
        assert_eq!(screen.key(released, 4), Next::GoOn);
    }

    /// Every size that a terminal may be given while it is resized, of folders in every state.
    #[test]
    fn no_size_breaks_it_and_a_small_one_still_names_runs_and_states() {
        let boards = [Board::new(&["plain", "gated"], 2), Board::new(&["plain"], 1), Board::new(&[], 0)];
        board_of_all_states(&boards[0]);
        for board in &boards {
            let monitor = board.monitor();
            for width in (1..=160).step_by(3) {
                for height in (1..=40).step_by(3) {
                    drawn(&mut Screen::new(0), &monitor, (width, height));
                }
            }
        }
        let lines = drawn(&mut Screen::new(0), &boards[0].monitor(), (40, 12));
        line(&lines, &["plain-s0", "running"]);
        let wide = drawn(&mut Screen::new(0), &boards[0].monitor(), (160, 30));
        line(&wide, &["gated ", " 0/2", "plain-s0 ", "running"]);
    }

    fn board_of_all_states(board: &Board) {
        std::mem::forget(board.runs(0, 0..150).hold(0));
        board.runs(1, 0..200).finish(1, FINISHED);
        board.spike(2, 0).append(2, "steps.csv", "1,1,inf,0.1,NaN,,,,,,,1,1\nrubbish\n");
        board.runs(3, 0..9).damage(3, "done.json", "{");
    }

    #[test]
    fn what_is_over_or_damaged_says_so() {
        let board = Board::new(&["plain"], 2);
        board.runs(0, 0..200).finish(0, FINISHED);
        board.runs(1, 0..9).append(1, "steps.csv", "rubbish\n");
        board.fail(1);
        let mut screen = Screen::new(1);
        let lines = drawn(&mut screen, &board.monitor(), (120, 30));
        line(&lines, &["finished: 1 of 2 done, 1 failed"]);
        line(&lines, &["damaged: steps.csv:"]);
        board.damage(0, "../../plan.toml", "format =");
        let mut monitor = Monitor::open(Board::new(&["plain"], 1).dir()).unwrap();
        monitor.problem = Some("plan.toml: broken".into());
        line(&drawn(&mut screen, &monitor, (120, 30)), &["plan.toml: broken"]);
    }
}
