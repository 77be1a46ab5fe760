//! Paired differences to the baseline with their intervals, a row per arm.

use reslab_report::{Interval, Metric, Summary};

use crate::colour::{BLUE, GRID, INK, REFERENCE, SOFT};
use crate::figure::{MARGIN, RULE, SMALL, finish, heading};
use crate::font::{self, Weight};
use crate::lines::unit;
use crate::scale::Scale;
use crate::scene::{Anchor, Area, Mark, Scene, Stroke};
use crate::study::Study;

const WIDTH: f64 = 860.0;
const ROW: f64 = 21.0;
const TEXT: f64 = 11.0;

/// One line of the plot.
enum Row {
    Group(String),
    Arm { name: String, difference: Option<Summary> },
}

/// The forest plot, or why there is none.
pub(crate) fn forest(study: &Study) -> Result<Scene, String> {
    let rows = rows(study);
    let metric = &study.table.metric;
    let factor = if metric.is_accuracy() { 100.0 } else { 1.0 };
    let differences = || rows.iter().filter_map(Row::difference);
    let ends = differences().flat_map(|s| [Some(s.mean), s.low, s.high]).flatten().map(|x| x * factor);
    let scale = Scale::linear(ends.chain([0.0])).filter(|_| differences().next().is_some());
    let scale = scale.ok_or("no arm has a run that pairs with one of the baseline")?;
    let title = format!("Difference in {} to {}, paired by seed", metric.name(), study.table.baseline);
    let mut scene = Scene {
        width: WIDTH,
        height: 0.0,
        title: title.clone(),
        description: about(&rows, metric),
        shapes: Vec::new(),
    };
    let top = heading(&mut scene, &title, &about(&rows, metric)) + 4.0;
    let names =
        rows.iter().map(Row::name).map(|name| font::width(name, TEXT, Weight::Bold)).fold(60.0, f64::max).min(330.0);
    let left = MARGIN + names + 16.0;
    let area = Area { x: left, y: top, w: WIDTH - left - 190.0, h: ROW * rows.len() as f64 + 6.0 };
    axis(&mut scene, area, scale, &difference_unit(metric));
    for (index, row) in rows.iter().enumerate() {
        draw_row(&mut scene, (area, scale, factor), row, area.y + 3.0 + ROW * (index as f64 + 0.5));
    }
    finish(&mut scene, area.bottom() + 36.0, &notes(study));
    Ok(scene)
}

impl Row {
    fn name(&self) -> &str {
        match self {
            Self::Group(name) | Self::Arm { name, .. } => name,
        }
    }

    fn difference(&self) -> Option<&Summary> {
        match self {
            Self::Group(_) => None,
            Self::Arm { difference, .. } => difference.as_ref(),
        }
    }
}

/// The chosen points first, where the sweep selects, then all.
fn rows(study: &Study) -> Vec<Row> {
    let table = study.table;
    let mut rows = Vec::new();
    if let Some(selection) = &table.selection {
        rows.push(Row::Group(format!(
            "Each at its own best {} on {}",
            selection.keys.join(", "),
            selection.metric.name()
        )));
        for choice in selection.rows.iter().filter(|choice| !choice.is_baseline) {
            let values: Vec<String> =
                choice.values.iter().map(|axis| format!("{}={}", axis.label, axis.value)).collect();
            let name =
                if values.is_empty() { choice.arm.clone() } else { format!("{} at {}", choice.arm, values.join(", ")) };
            rows.push(Row::Arm { name, difference: choice.difference });
        }
        rows.push(Row::Group(format!("At the same {}", axes(study))));
    }
    for row in table.rows.iter().filter(|row| !row.is_baseline) {
        rows.push(Row::Arm { name: row.arm.clone(), difference: row.difference });
    }
    rows
}

/// The keys that pair an arm with the baseline.
fn axes(study: &Study) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for axis in study.table.rows.iter().flat_map(|row| &row.point) {
        if !keys.contains(&axis.key.as_str()) {
            keys.push(&axis.key);
        }
    }
    keys.join(", ")
}

fn about(rows: &[Row], metric: &Metric) -> String {
    let has = |interval: Interval| rows.iter().filter_map(Row::difference).any(|s| s.interval == interval);
    let mut text = format!("Arm minus baseline; {} is better.", if metric.is_loss() { "lower" } else { "higher" });
    text += " Point: mean over n pairs.";
    if has(Interval::T95) {
        text += " Solid line: 95 % t interval of that mean, not corrected for the number of arms.";
    }
    if has(Interval::Range) {
        text += " Dashed line: range of two pairs.";
    }
    if has(Interval::None) {
        text += " No line: one pair, or a diverged run among them.";
    }
    text
}

fn difference_unit(metric: &Metric) -> String {
    if metric.is_accuracy() {
        format!("difference in {} (percentage points)", metric.name())
    } else {
        format!("difference in {}", unit(metric))
    }
}

fn notes(study: &Study) -> Vec<String> {
    let few = study.table.rows.iter().filter_map(|row| row.difference.as_ref()).map(|s| s.n).max().unwrap_or(0);
    vec![format!(
        "The intervals describe these runs (n = {few} pairs at most); what a test allows to say stands in table.md."
    )]
}

fn axis(scene: &mut Scene, area: Area, scale: Scale, title: &str) {
    for tick in scale.ticks((area.w / 60.0) as usize) {
        let Some(share) = scale.at(tick.value) else { continue };
        let x = area.x + share * area.w;
        scene.line(vec![(x, area.y), (x, area.bottom())], RULE);
        scene.line(vec![(x, area.bottom()), (x, area.bottom() + 3.0)], Stroke::solid(INK, 0.8));
        scene.text((x, area.bottom() + 14.0), tick.label, SMALL, Anchor::Middle);
    }
    scene.line(vec![(area.x, area.bottom()), (area.right(), area.bottom())], Stroke::solid(INK, 0.8));
    if let Some(share) = scale.at(0.0) {
        let x = area.x + share * area.w;
        scene.line(vec![(x, area.y), (x, area.bottom())], Stroke { colour: REFERENCE, width: 1.2, dash: &[4.0, 3.0] });
    }
    scene.text((area.x + area.w / 2.0, area.bottom() + 31.0), title, TEXT, Anchor::Middle);
}

fn draw_row(scene: &mut Scene, (area, scale, factor): (Area, Scale, f64), row: &Row, y: f64) {
    let Row::Arm { name, difference } = row else {
        scene.rect(Area { x: MARGIN, y: y + ROW / 2.0 - 2.0, w: WIDTH - 2.0 * MARGIN, h: 0.8 }, GRID);
        scene.text((MARGIN, y + 4.0), row.name(), TEXT, Anchor::Start).bold();
        return;
    };
    let size = font::fit(name, TEXT, Weight::Regular, area.x - MARGIN - 12.0);
    scene.text((MARGIN, y + 4.0), name, size, Anchor::Start);
    let Some(summary) = difference else {
        scene.text((area.right() + 14.0, y + 4.0), "no pair of runs", TEXT, Anchor::Start).colour(SOFT);
        return;
    };
    let place = |value: f64| scale.at(value * factor).map(|share| area.x + share * area.w);
    if let (Some(low), Some(high)) = (summary.low.and_then(place), summary.high.and_then(place)) {
        let dash: &'static [f64] = if summary.interval == Interval::Range { &[3.0, 2.0] } else { &[] };
        scene.line(vec![(low, y), (high, y)], Stroke { colour: BLUE, width: 1.7, dash });
        for end in [low, high] {
            scene.line(vec![(end, y - 4.0), (end, y + 4.0)], Stroke::solid(BLUE, 1.7));
        }
    }
    if let Some(x) = place(summary.mean) {
        scene.mark((x, y), Mark::Square, 3.2, BLUE);
    }
    scene.text((area.right() + 14.0, y + 4.0), figures(summary, factor), TEXT, Anchor::Start);
}

/// `+2.04 +- 1.88 (n = 3)`.
fn figures(s: &Summary, factor: f64) -> String {
    let digits = if factor == 1.0 { 4 } else { 2 };
    let show = |x: f64| format!("{:+.digits$}", x * factor);
    let interval = match (s.interval, s.low, s.high) {
        (Interval::T95, _, Some(high)) => format!(" \u{b1} {:.digits$}", (high - s.mean) * factor),
        (Interval::Range, Some(low), Some(high)) => format!(" [{}, {}]", show(low), show(high)),
        _ => String::new(),
    };
    let diverged = if s.diverged > 0 { format!(", {} diverged", s.diverged) } else { String::new() };
    format!("{}{interval} (n = {}{diverged})", show(s.mean), s.n)
}
