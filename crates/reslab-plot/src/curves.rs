//! Figures of lines over seeds: a panel per arm, a line per point, a band from the smallest to the largest seed.

use crate::colour::{self, BLUE, REFERENCE, Rgb, SOFT, VERMILION};
use crate::figure::{Axis, Body, Figure, Key, Layer, Panel, Sign};
use crate::scale::Scale;
use crate::scene::{Mark, Stroke};
use crate::series::{Seeds, over_seeds, thin, thin_alone};

/// More points than this on a line are not seen in a panel.
const MOST_POINTS: usize = 150;
/// Up to so many points each gets its mark.
const MARKED_POINTS: usize = 24;
const DASHES: [&[f64]; 4] = [&[], &[7.0, 3.0], &[2.0, 2.0], &[8.0, 2.5, 2.0, 2.5]];
const MARKS: [Mark; 4] = [Mark::Dot, Mark::Square, Mark::Triangle, Mark::Diamond];
const REFERENCE_LINE: Stroke = Stroke { colour: REFERENCE, width: 1.2, dash: &[4.0, 3.0] };

/// What a figure of lines is about.
pub(crate) struct Curves {
    pub title: String,
    pub about: String,
    pub x: Axis,
    pub y: String,
    /// Whether y is logarithmic.
    pub log: bool,
    /// Figures above it stand at the upper edge, and that is said.
    pub cut: Option<f64>,
    /// The baseline's name: its mean is drawn into the other panels, where there is one line per panel.
    pub baseline: String,
    /// What the marks of [`Lines::events`] are.
    pub events: Option<(Mark, &'static str)>,
    /// As in [`Figure::per_arm`].
    pub per_arm: usize,
    pub arms: Vec<Lines>,
}

/// One arm's panel.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    pub name: String,
    pub is_baseline: bool,
    pub lines: Vec<Line>,
    /// What stands behind n: `2 spikes`.
    pub detail: String,
}

/// One line of a panel.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub label: String,
    /// One series per seed, sorted by x.
    pub seeds: Vec<Vec<(f64, f64)>>,
    /// Where something happened: a spike, a run that diverged.
    pub events: Vec<(f64, f64)>,
    /// Where a run ended since its loss or gradient norm was not finite.
    pub ends: Vec<(f64, f64)>,
}

impl Line {
    /// How many seeds have a figure, and how many there are to be.
    fn count(&self) -> (usize, usize) {
        let some = self.seeds.iter().filter(|series| series.iter().any(|point| point.1.is_finite()));
        (some.count(), self.seeds.len())
    }
}

/// A line's place among the labels of the whole figure: it looks the same in every panel.
struct Look {
    stroke: Stroke,
    mark: Mark,
}

impl Curves {
    /// The figure, or why there is none.
    pub fn figure(self) -> Result<Figure, String> {
        let seeds: Vec<Vec<Seeds>> =
            self.arms.iter().map(|arm| arm.lines.iter().map(|line| over_seeds(&line.seeds)).collect()).collect();
        let labels = self.labels();
        let (scale, cut) = self.scale(&seeds).ok_or("no run has recorded it")?;
        let reference = self.reference(&seeds, &labels);
        let panels = self.arms.iter().zip(&seeds).map(|(arm, seeds)| {
            let shown = reference.clone().filter(|_| !arm.is_baseline);
            let body = self.body(arm, seeds, &labels, shown);
            Panel { name: arm.name.clone(), detail: detail(arm), body }
        });
        let panels = panels.collect();
        let mut notes = Vec::new();
        if let Some(cut) = cut {
            notes.push(format!("Values above {cut:.2} stand at the upper edge."));
        }
        let longest = seeds.iter().flatten().map(|seeds| seeds.together.len()).max().unwrap_or(0);
        let together = longest.div_ceil(MOST_POINTS);
        if together > 1 {
            notes.push(format!(
                "Each point of a line is the mean of {together} steps; the band has all of their range."
            ));
        }
        let keys = self.keys(&seeds, &labels, reference.is_some());
        let (y, per_arm) = (Axis::new(self.y, scale), self.per_arm);
        Ok(Figure { title: self.title, about: self.about, keys, bar: None, x: self.x, y, panels, per_arm, notes })
    }

    /// The labels of all lines, each once.
    fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for line in self.arms.iter().flat_map(|arm| &arm.lines) {
            if !labels.contains(&line.label) {
                labels.push(line.label.clone());
            }
        }
        labels
    }

    fn scale(&self, seeds: &[Vec<Seeds>]) -> Option<(Scale, Option<f64>)> {
        let all = seeds.iter().flatten();
        let together = all.clone().flat_map(|s| s.together.iter().flat_map(|p| [p.low, p.high]));
        let alone = all.flat_map(|s| s.alone.iter().flatten().map(|point| point.1));
        let events = self.arms.iter().flat_map(|arm| &arm.lines).flat_map(|line| line.events.iter().map(|p| p.1));
        // A mark stands above its figure.
        let events = events.map(|y| if self.log { 1.25 * y } else { y });
        let values: Vec<f64> = together.chain(alone).chain(events).collect();
        let cut = self.cut.filter(|cut| values.iter().any(|y| y > cut) && values.iter().any(|y| y <= cut));
        let shown = values.iter().copied().map(|y| cut.map_or(y, |cut| y.min(cut)));
        let scale = if self.log { Scale::log(shown) } else { Scale::linear(shown) };
        Some((scale?, cut))
    }

    /// The baseline's mean, to be compared with in every panel.
    fn reference(&self, seeds: &[Vec<Seeds>], labels: &[String]) -> Option<Vec<(f64, f64)>> {
        let mut baselines = (0..self.arms.len()).filter(|at| self.arms[*at].is_baseline);
        let at = baselines.next().filter(|_| baselines.next().is_none() && labels.len() == 1 && self.arms.len() > 1)?;
        let mean = thin(&seeds[at].first()?.together, MOST_POINTS);
        Some(mean.iter().map(|p| (p.x, p.mean)).collect()).filter(|line: &Vec<_>| !line.is_empty())
    }

    fn body(&self, arm: &Lines, seeds: &[Seeds], labels: &[String], reference: Option<Vec<(f64, f64)>>) -> Body {
        if seeds.iter().all(|seeds| seeds.together.is_empty() && seeds.alone.is_empty()) {
            return Body::Empty("no records".to_owned());
        }
        let looks: Vec<Look> = arm.lines.iter().map(|line| look(&line.label, labels)).collect();
        let mut layers: Vec<Layer> = Vec::new();
        layers.extend(reference.map(|points| Layer::Line { points, stroke: REFERENCE_LINE }));
        for (seeds, look) in seeds.iter().zip(&looks) {
            let points = thin(&seeds.together, MOST_POINTS);
            if points.iter().any(|p| p.high > p.low) {
                let points = points.iter().map(|p| (p.x, p.low, p.high)).collect();
                layers.push(Layer::Band { points, colour: look.stroke.colour });
            }
        }
        for (seeds, look) in seeds.iter().zip(&looks) {
            layers.extend(strokes(seeds, look));
        }
        let all = |of: fn(&Line) -> &Vec<(f64, f64)>| arm.lines.iter().flat_map(of).copied().collect::<Vec<_>>();
        if let Some((mark, _)) = self.events {
            layers.push(Layer::Marks { points: all(|line| &line.events), mark, size: 3.4, colour: VERMILION });
        }
        layers.push(Layer::Marks { points: all(|line| &line.ends), mark: Mark::Cross, size: 4.0, colour: colour::INK });
        Body::Curves(layers)
    }

    fn keys(&self, seeds: &[Vec<Seeds>], labels: &[String], has_reference: bool) -> Vec<Key> {
        let key = |sign: Sign, label: &str| Key { sign, label: label.to_owned() };
        let is_marked = seeds.iter().flatten().any(is_marked);
        let mut keys: Vec<Key> = Vec::new();
        for label in labels {
            let look = look(label, labels);
            let mark = Some(look.mark).filter(|_| is_marked);
            let words = if label.is_empty() { "mean over n seeds" } else { label };
            keys.push(key(Sign::Line { stroke: look.stroke, mark }, words));
        }
        let some = |holds: &dyn Fn(&Seeds) -> bool| seeds.iter().flatten().any(holds);
        if some(&|seeds| seeds.together.iter().any(|p| p.high > p.low)) {
            let colour = if labels.len() == 1 { BLUE } else { SOFT };
            keys.push(key(Sign::Band(colour), "smallest to largest seed"));
        }
        if some(&|seeds| !seeds.alone.is_empty()) {
            keys.push(key(thin_line(SOFT), "single seeds, where not all are there"));
        }
        if has_reference {
            keys.push(key(
                Sign::Line { stroke: REFERENCE_LINE, mark: None },
                &format!("{} (baseline), mean", self.baseline),
            ));
        }
        let lines = || self.arms.iter().flat_map(|arm| &arm.lines);
        if let Some((mark, words)) = self.events.filter(|_| lines().any(|line| !line.events.is_empty())) {
            keys.push(key(Sign::Mark(mark, VERMILION), words));
        }
        if lines().any(|line| !line.ends.is_empty()) {
            keys.push(key(Sign::Mark(Mark::Cross, colour::INK), "not finite: the run ended"));
        }
        keys
    }
}

fn thin_line(colour: Rgb) -> Sign {
    Sign::Line { stroke: Stroke::solid(colour, 0.7), mark: None }
}

fn look(label: &str, labels: &[String]) -> Look {
    let index = labels.iter().position(|known| known == label).unwrap_or(0);
    let colour = colour::line(index);
    Look { stroke: Stroke { colour, width: 1.7, dash: DASHES[index % DASHES.len()] }, mark: MARKS[index % MARKS.len()] }
}

fn is_marked(seeds: &Seeds) -> bool {
    (1..=MARKED_POINTS).contains(&seeds.together.len())
}

fn strokes(seeds: &Seeds, look: &Look) -> Vec<Layer> {
    let mut layers = Vec::new();
    for tail in &seeds.alone {
        let (points, stroke) = (thin_alone(tail, MOST_POINTS), Stroke::solid(look.stroke.colour, 0.7));
        layers.push(Layer::Line { points, stroke });
    }
    let points: Vec<(f64, f64)> = thin(&seeds.together, MOST_POINTS).iter().map(|p| (p.x, p.mean)).collect();
    if is_marked(seeds) {
        layers.push(Layer::Marks { points: points.clone(), mark: look.mark, size: 3.2, colour: look.stroke.colour });
    }
    layers.push(Layer::Line { points, stroke: look.stroke });
    layers
}

/// `n = 3`, `n = 2 of 3`, or `n = 3, 2, 3` in the order of the lines; then what else is to be said.
fn detail(arm: &Lines) -> String {
    let mut counts: Vec<String> = Vec::new();
    for (some, all) in arm.lines.iter().map(Line::count) {
        counts.push(if some == all { some.to_string() } else { format!("{some} of {all}") });
    }
    let several = if counts.len() > 1 { " each" } else { "" };
    let counts = match counts.windows(2).all(|pair| pair[0] == pair[1]) {
        true => format!("n = {}{several}", counts.first().map_or("0", String::as_str)),
        false => format!("n = {}", counts.join("; ")),
    };
    if arm.detail.is_empty() { counts } else { format!("{counts}, {}", arm.detail) }
}
