//! What stands in the table of runs.

use super::spark::spark;
use super::{Monitor, RunView};
use crate::watch::short;
use reslab_sweep::span;

/// A column of the table of runs.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) width: u16,
    pub(super) show: fn(&RunView, usize) -> String,
}

/// Those that fit, the most wanted first; the curve takes what is left.
pub(super) fn columns(width: u16, monitor: &Monitor) -> Vec<Column> {
    let longest = monitor.runs.iter().map(|run| short(&run.label()).chars().count()).max().unwrap_or(3);
    let column = |head, width, show| Column { head, width, show };
    // In order; the number says which go first where there is no room.
    let wanted: [(u8, Column); 8] = [
        (0, column("run", longest.max(3) as u16, |run, _| short(&run.label()))),
        (1, column("state", 12, |run, _| run.word())),
        (2, column("step", 13, |run, _| steps(run))),
        (3, column("loss", 9, |run, _| run.last.as_ref().map_or(String::new(), |row| figure(row.loss)))),
        (4, column("val", 8, |run, _| validation(run))),
        (6, column("spikes", 6, |run, _| spikes(run))),
        (5, column("left", 12, |run, _| run.seconds_left().map_or(String::new(), span))),
        (7, column("device", 7, |run, _| run.device.clone().unwrap_or_default())),
    ];
    let mut room = width;
    let mut order: Vec<&(u8, Column)> = wanted.iter().collect();
    order.sort_by_key(|(rank, _)| *rank);
    let mut last = 0;
    for (rank, column) in order {
        // The name stands there however narrow it is.
        if *rank > 0 && column.width + 1 > room {
            break;
        }
        room = room.saturating_sub(column.width + 1);
        last = *rank;
    }
    let mut columns: Vec<Column> =
        wanted.into_iter().filter(|(rank, _)| *rank <= last).map(|(_, column)| column).collect();
    if room >= 8 {
        columns.push(column("loss curve", room, |run, width| spark(&run.losses, width)));
    }
    columns
}

fn steps(run: &RunView) -> String {
    match run.total() {
        Some(total) => format!("{}/{total}", run.steps()),
        None if run.steps() > 0 => run.steps().to_string(),
        None => String::new(),
    }
}

pub(super) fn validation(run: &RunView) -> String {
    run.validation.map_or(String::new(), |(_, top1)| format!("{:.2} %", 100.0 * top1))
}

pub(super) fn spikes(run: &RunView) -> String {
    if run.spikes.is_empty() { String::new() } else { run.spikes.len().to_string() }
}

/// A figure of any size in nine characters.
pub(super) fn figure(x: f64) -> String {
    if x == 0.0 || !x.is_finite() || (1e-3..1e4).contains(&x.abs()) { format!("{x:.4}") } else { format!("{x:.2e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_any_size_fit() {
        for x in [0.0, 1.25, -1e-9, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::NEG_INFINITY, 9999.99994] {
            assert!(figure(x).chars().count() <= 10, "{}", figure(x));
        }
        assert_eq!([figure(1.25), figure(1e-5), figure(f64::NAN)], ["1.2500", "1.00e-5", "NaN"]);
    }
}
