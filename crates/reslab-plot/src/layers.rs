//! Plots per layer: heat maps over step and block, and the stream's size by depth.

use reslab_record::Branch;
use std::collections::{BTreeMap, BTreeSet};

use crate::colour::{self, Rgb, WHITE};
use crate::curves::{Curves, Line, Lines};
use crate::figure::{Axis, Bar, Body, Figure, Panel, Strip};
use crate::heat::{Heat, Source};
use crate::scale::Scale;
use crate::scene::Pixels;
use crate::study::{self, Arm, Study};

/// More columns than this are not seen in a heat map.
const MOST_COLUMNS: usize = 60;
/// The colour of a cell without a figure; the scale has the 255 before it.
const NONE: u8 = 255;
/// The logarithmic scale of colours reaches from its top down to this part of it.
const SPAN: f64 = 100.0;

/// Mean over seeds by step and block, of each map of a panel, and the number of seeds that have any.
struct Map {
    cells: Vec<BTreeMap<(u64, u64), f64>>,
    n: usize,
}

/// Heat maps for each arm at each point, side by side.
pub(crate) fn heat(study: &Study, heat: Heat) -> Result<Figure, String> {
    let rows = study.rows();
    let maps: Vec<Map> = rows.iter().map(|arm| map(study, arm, heat.source)).collect();
    let all = || maps.iter().flat_map(|map| &map.cells).flatten();
    let scale = colours(heat.log, all().map(|(_, value)| *value)).ok_or_else(|| match heat.only_with {
        Some(part) => format!("no run has recorded a {part}"),
        None => format!("no run has recorded {}", heat.source.lack()),
    })?;
    let steps = all().map(|((step, _), _)| *step).max().unwrap_or(0);
    let blocks = all().map(|((_, block), _)| block + 1).max().unwrap_or(1);
    let mut without = Vec::new();
    let mut panels = Vec::new();
    for (arm, map) in rows.iter().zip(&maps) {
        if map.n == 0 && heat.only_with.is_some() {
            if !without.contains(&arm.base) {
                without.push(arm.base.clone());
            }
            continue;
        }
        let body = if map.n == 0 {
            Body::Empty(format!("no {}", heat.source.lack()))
        } else {
            let strips = heat.source.strips().iter().zip(&map.cells);
            Body::Strips(strips.map(|(name, cells)| strip(name, cells, scale)).collect())
        };
        panels.push(Panel { name: arm.name.clone(), detail: detail(study, arm, map.n), body });
    }
    let end = panels_end(&panels).unwrap_or(steps as f64);
    Ok(Figure {
        title: heat.title.to_owned(),
        about: "Mean over n seeds, or those of them that got so far. To the right: training. Upward: from the first block to the last.".to_owned(),
        keys: Vec::new(),
        bar: Some(Bar { title: heat.bar.to_owned(), scale }),
        x: Axis::new("optimizer step", Scale::Linear { low: 0.0, high: end.max(1.0) }),
        y: Axis::new("block", Scale::Linear { low: -0.5, high: blocks as f64 - 0.5 }),
        per_arm: study.points(),
        notes: notes(heat, &panels, &without, scale, all().map(|(_, value)| *value)),
        panels,
    })
}

/// Where the last column of all heat maps ends.
fn panels_end(panels: &[Panel]) -> Option<f64> {
    let strips = panels.iter().flat_map(|panel| match &panel.body {
        Body::Strips(strips) => strips.as_slice(),
        _ => &[],
    });
    strips.map(|strip| strip.x.1).reduce(f64::max)
}

/// The scale of colours over all figures. A logarithmic one leaves out the lowest and highest hundredth, and ends two
/// powers of ten below its top: a few joins must not take the differences from all others.
fn colours(log: bool, values: impl Iterator<Item = f64>) -> Option<Scale> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    if !log {
        // All alike: as of gates none of which is saturated.
        return Some(Scale::linear_between(least, if most > least { most } else { least + 1.0 }));
    }
    values.retain(|value| *value > 0.0);
    let quantile = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize);
    // All gammas are zero, say: there is something to show, but nothing to tell apart.
    let (Some(low), Some(high)) = (quantile(0.01), quantile(0.99)) else {
        return Some(Scale::Linear { low: 0.0, high: 1.0 });
    };
    let low = low.max(high / SPAN);
    Some(Scale::log_between(low, *high))
}

fn notes(
    heat: Heat,
    panels: &[Panel],
    without: &[String],
    scale: Scale,
    values: impl Iterator<Item = f64>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let (low, high) = scale.ends();
    let (least, most) = values.fold((low, high), |(least, most), x| (x.min(least), x.max(most)));
    if least < low {
        notes.push(format!("Figures below {} have the darkest colour; the least is {}.", three(low), three(least)));
    }
    if most > high {
        notes.push(format!("Figures above {} have the lightest colour; the largest is {}.", three(high), three(most)));
    }
    let is_empty = |strip: &Strip| strip.pixels.cells.contains(&NONE);
    if panels.iter().any(|panel| matches!(&panel.body, Body::Strips(strips) if strips.iter().any(is_empty))) {
        notes.push("White: no figure is recorded or defined there.".to_owned());
    }
    if let Some(part) = heat.only_with.filter(|_| !without.is_empty()) {
        notes.push(format!("Without a {part}: {}.", without.join(", ")));
    }
    notes
}

/// Three digits that count.
fn three(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e4).contains(&x.abs()) {
        return format!("{x:.2e}");
    }
    let digits = (2.0 - libm::log10(x.abs()).floor()).clamp(0.0, 5.0) as usize;
    format!("{x:.digits$}")
}

fn map(study: &Study, arm: &Arm, source: Source) -> Map {
    let mut sums: Vec<BTreeMap<(u64, u64), (f64, u32)>> = vec![BTreeMap::new(); source.strips().len()];
    let mut n = 0;
    for run in arm.lines.iter().flat_map(|line| &line.runs) {
        let mut has_any = false;
        for (map, step, block, figure) in source.cells(&study.records[*run]).filter(|cell| cell.3.is_finite()) {
            has_any = true;
            let (sum, count) = sums[map].entry((step, block)).or_default();
            *sum += figure;
            *count += 1;
        }
        n += usize::from(has_any);
    }
    let means =
        |sums: BTreeMap<_, (f64, u32)>| sums.into_iter().map(|(at, (sum, n))| (at, sum / f64::from(n))).collect();
    Map { cells: sums.into_iter().map(means).collect(), n }
}

fn strip(name: &'static str, cells: &BTreeMap<(u64, u64), f64>, scale: Scale) -> Strip {
    let steps: Vec<u64> = cells.keys().map(|(step, _)| *step).collect::<BTreeSet<_>>().into_iter().collect();
    let every = steps.len().div_ceil(MOST_COLUMNS).max(1);
    let steps: Vec<u64> = steps.into_iter().step_by(every).collect();
    let blocks = cells.keys().map(|(_, block)| block + 1).max().unwrap_or(1);
    let mut pixels = Vec::with_capacity(steps.len() * blocks as usize);
    for block in (0..blocks).rev() {
        pixels.extend(steps.iter().map(|step| {
            let share = cells.get(&(*step, block)).and_then(|value| scale.at(*value));
            share.map_or(NONE, |share| (share * f64::from(NONE - 1)).round() as u8)
        }));
    }
    // A column reaches to the next one.
    let (first, last) = (steps.first().map_or(0.0, |s| *s as f64), steps.last().map_or(1.0, |s| *s as f64));
    let wide = if steps.len() > 1 { (last - first) / (steps.len() - 1) as f64 } else { 1.0 };
    let columns = steps.len().max(1);
    let pixels = if pixels.is_empty() { vec![NONE] } else { pixels };
    let pixels = Pixels { columns, cells: pixels, palette: palette() };
    Strip { name, pixels, x: (first, last + wide), y: (-0.5, blocks as f64 - 0.5) }
}

fn palette() -> Vec<Rgb> {
    let steps = 0..NONE;
    steps.map(|k| colour::cividis(f64::from(k) / f64::from(NONE - 1))).chain([WHITE]).collect()
}

fn detail(study: &Study, arm: &Arm, n: usize) -> String {
    let runs: Vec<usize> = arm.lines.iter().flat_map(|line| line.runs.iter().copied()).collect();
    let counts = if n == runs.len() { format!("n = {n}") } else { format!("n = {n} of {}", runs.len()) };
    match study.diverged(&runs) {
        0 => counts,
        diverged => format!("{counts}, {diverged} diverged"),
    }
}

/// The residual's rms by depth at the first, a middle and the last telemetry step.
pub(crate) fn residual_rms(study: &Study) -> Result<Figure, String> {
    let rows = study.rows();
    let moments: Vec<Option<[u64; 3]>> = rows.iter().map(|arm| moments(study, arm)).collect();
    let known: BTreeSet<[u64; 3]> = moments.iter().flatten().copied().collect();
    let words = ["start", "middle", "end"];
    let label = |k: usize| match known.first().filter(|_| known.len() == 1) {
        Some(steps) => format!("{} (step {})", words[k], steps[k]),
        None => words[k].to_owned(),
    };
    let lines = |arm: &Arm, steps: Option<[u64; 3]>| -> Vec<Line> {
        let at = |k: usize| {
            arm.lines.iter().flat_map(|line| &line.runs).map(move |run| profile(study, *run, steps.map(|s| s[k])))
        };
        (0..3).map(|k| Line { label: label(k), seeds: at(k).collect(), events: Vec::new(), ends: Vec::new() }).collect()
    };
    let arms: Vec<Lines> = rows
        .iter()
        .zip(&moments)
        .map(|(arm, steps)| {
            let (name, is_baseline) = (arm.name.clone(), arm.is_baseline);
            Lines { name, is_baseline, lines: lines(arm, *steps), detail: String::new() }
        })
        .collect();
    let points = || arms.iter().flat_map(|arm| &arm.lines).flat_map(|line| line.seeds.iter().flatten());
    let (low, high) =
        points().map(|p| p.1).filter(|y| *y > 0.0).fold((f64::INFINITY, 0.0), |(l, h), y| (y.min(l), y.max(h)));
    let log = high > 8.0 * low;
    let blocks = points().map(|point| point.0).fold(0.0, f64::max);
    Curves {
        title: "Size of the residual by depth".to_owned(),
        about:
            "Root mean square of the residual that enters a join, at the start, middle and end of training (telemetry \
                steps). Line: mean over n seeds. Band: from the smallest to the largest seed."
                .to_owned(),
        x: Axis::new("block (attention, then MLP)", Scale::Linear { low: 0.0, high: blocks.max(1.0) }),
        per_arm: study.points(),
        y: if log { "residual rms (no unit, log)" } else { "residual rms (no unit)" }.to_owned(),
        log,
        cut: None,
        baseline: study.table.baseline.clone(),
        events: None,
        arms,
    }
    .figure()
}

/// The first, middle and last step with telemetry of an arm's runs.
fn moments(study: &Study, arm: &Arm) -> Option<[u64; 3]> {
    let joins = arm.lines.iter().flat_map(|line| &line.runs).flat_map(|run| &study.records[*run].joins);
    let steps: BTreeSet<u64> = joins.map(|join| join.step).collect();
    let (first, last) = (*steps.first()?, *steps.last()?);
    let middle = steps.iter().min_by_key(|step| step.abs_diff(first.midpoint(last)))?;
    Some([first, *middle, last])
}

fn profile(study: &Study, run: usize, step: Option<u64>) -> Vec<(f64, f64)> {
    let joins = study.records[run].joins.iter().filter(|join| Some(join.step) == step);
    let place = |join: &study::Join| join.block as f64 + if join.branch == Branch::Mlp { 0.5 } else { 0.0 };
    let mut points: Vec<_> = joins.map(|join| (place(join), join.get(study::Figure::ResidualRms))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let figures = [0.0, 0.00271, 0.1389, 5.538, 123.4, 1.93e-8, -0.5, f64::MAX];
        let want = ["0", "0.00271", "0.139", "5.54", "123", "1.93e-8", "-0.500", "1.80e308"];
        assert_eq!(figures.map(three), want);
    }

    /// Blocks 0 and 1 at steps 0 and 10; of block 1 nothing is known at step 10.
    #[test]
    fn a_heat_map_has_its_first_block_below_and_is_white_where_nothing_is_known() {
        let cells = BTreeMap::from([((0, 0), 1.0), ((0, 1), 100.0), ((10, 0), 10.0)]);
        let strip = strip("MLP", &cells, Scale::Log { low: 1.0, high: 100.0 });
        assert_eq!((strip.pixels.columns, strip.x, strip.y), (2, (0.0, 20.0), (-0.5, 1.5)));
        assert_eq!(strip.pixels.cells, [254, NONE, 0, 127]);
        assert_eq!(strip.pixels.palette[255], WHITE);
        assert_eq!(strip.pixels.palette[254], colour::cividis(1.0));
    }

    #[test]
    fn many_steps_become_no_more_columns_than_are_seen() {
        let cells = (0..1000).map(|step| ((step * 5, 0), 1.0)).collect();
        let strip = strip("MLP", &cells, Scale::Linear { low: 0.0, high: 1.0 });
        assert!(strip.pixels.columns <= MOST_COLUMNS && strip.pixels.columns > MOST_COLUMNS / 2);
        assert!((4900.0..=5100.0).contains(&strip.x.1), "and the last reaches to the end: {:?}", strip.x);
    }

    #[test]
    fn a_few_figures_do_not_take_the_colours_of_all_others() {
        let most = (1..=980).map(|k| 0.1 * f64::from(k) / 980.0 + 0.01);
        let Some(Scale::Log { low, high }) = colours(true, most.chain([1e-9, 50.0])) else { panic!() };
        assert!(low > 0.009 && high < 0.12, "{low} {high}");
        let Some(Scale::Log { low, high }) = colours(true, [1e-9, 1e-5, 1.0].into_iter()) else { panic!() };
        assert_eq!((low, high), (0.01, 1.0), "two powers of ten");
        assert_eq!(colours(true, [0.0, 0.0].into_iter()), Some(Scale::Linear { low: 0.0, high: 1.0 }));
        assert_eq!(colours(false, [0.0, 0.0].into_iter()), Some(Scale::Linear { low: 0.0, high: 1.0 }));
        assert_eq!(colours(false, [-0.5, 0.5].into_iter()), Some(Scale::Linear { low: -0.5, high: 0.5 }));
        assert_eq!(colours(true, std::iter::empty()), None);
    }
}
