//! A figure: a title, how to read it, a legend, and panels that share their axes, one per arm.

use crate::colour::{self, GRID, INK, Rgb, SOFT};
use crate::font::{self, Weight, wrap};
use crate::panel;
use crate::scale::{Scale, Tick};
use crate::scene::{Anchor, Area, Mark, Pixels, Scene, Stroke};

/// Space around everything.
pub(crate) const MARGIN: f64 = 16.0;
/// Height of a panel's name and detail, and of the names of heat maps.
const HEAD: f64 = 32.0;
const STRIP_HEAD: f64 = 13.0;
/// Between panels.
const GAP: f64 = 12.0;
/// Room for the y axis: its title and its labels.
const LEFT: f64 = 56.0;
pub(crate) const TITLE: f64 = 16.0;
/// Room for the sweep's name beside the title.
pub(crate) const SUBJECT: f64 = 180.0;
const TEXT: f64 = 11.0;
/// The smallest text.
pub(crate) const SMALL: f64 = 10.0;

/// A plot whose panels share their axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub title: String,
    /// How to read it: what line and band are.
    pub about: String,
    pub keys: Vec<Key>,
    pub bar: Option<Bar>,
    pub x: Axis,
    pub y: Axis,
    pub panels: Vec<Panel>,
    /// Panels of one arm, where every arm has so many: they stand in a row of their own.
    pub per_arm: usize,
    /// What must be known of these figures.
    pub notes: Vec<String>,
}

/// An axis with its title, which names the unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub title: String,
    pub scale: Scale,
    /// What is marked; empty: round figures.
    pub marked: Vec<Tick>,
}

impl Axis {
    pub fn new(title: impl Into<String>, scale: Scale) -> Self {
        Self { title: title.into(), scale, marked: Vec::new() }
    }

    /// At most about `most` ticks.
    pub fn ticks(&self, most: usize) -> Vec<Tick> {
        if self.marked.is_empty() { self.scale.ticks(most) } else { self.marked.clone() }
    }
}

/// A sign of the legend and its meaning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub sign: Sign,
    pub label: String,
}

/// What a legend shows before its words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sign {
    Line { stroke: Stroke, mark: Option<Mark> },
    Band(Rgb),
    Mark(Mark, Rgb),
}

/// The scale of colours.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub title: String,
    pub scale: Scale,
}

/// One arm's part of a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    pub name: String,
    /// `n = 3, 1 diverged`.
    pub detail: String,
    pub body: Body,
}

/// What a panel shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// Painted one over the other.
    Curves(Vec<Layer>),
    /// Side by side, over the same axes.
    Strips(Vec<Strip>),
    /// Why there is nothing to see.
    Empty(String),
}

/// Something drawn at figures of the axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Layer {
    /// x, lower end, upper end.
    Band {
        points: Vec<(f64, f64, f64)>,
        colour: Rgb,
    },
    Line {
        points: Vec<(f64, f64)>,
        stroke: Stroke,
    },
    Marks {
        points: Vec<(f64, f64)>,
        mark: Mark,
        size: f64,
        colour: Rgb,
    },
}

/// A heat map over a part of the axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Strip {
    pub name: &'static str,
    pub pixels: Pixels,
    pub x: (f64, f64),
    pub y: (f64, f64),
}

/// Where everything of a figure stands.
pub(crate) struct Grid {
    pub columns: usize,
    pub width: f64,
    pub plot: (f64, f64),
    left: f64,
    top: f64,
    head: f64,
}

impl Grid {
    /// As many columns as keep the panels alike in shape: eight arms in two rows of four.
    fn new(figure: &Figure) -> Self {
        let panels = figure.panels.len();
        let columns = match panels {
            _ if (2..=4).contains(&figure.per_arm) => figure.per_arm.min(panels),
            0..=3 => panels.max(1),
            4 => 2,
            5 | 6 | 9 => 3,
            _ => 4,
        };
        let width = match columns {
            1 => 620.0,
            2 => 800.0,
            _ => 960.0,
        };
        let plot = (width - 2.0 * MARGIN - LEFT - GAP * (columns - 1) as f64) / columns as f64;
        let shape = if columns == 1 || panels > 3 * columns { 0.55 } else { 0.72 };
        Self {
            columns,
            width,
            plot: (plot, (plot * shape).round()),
            left: MARGIN + LEFT,
            top: 0.0,
            head: HEAD + figure.strip_head(),
        }
    }

    /// The plot area of a panel, below its head.
    fn area(&self, index: usize) -> Area {
        let (row, column) = (index / self.columns, index % self.columns);
        let (w, h) = self.plot;
        let x = self.left + column as f64 * (w + GAP);
        Area { x, y: self.top + self.head + row as f64 * (h + self.head + GAP), w, h }
    }
}

impl Figure {
    /// Draws it.
    pub fn draw(&self) -> Scene {
        let mut grid = Grid::new(self);
        let mut scene = Scene {
            width: grid.width,
            height: 0.0,
            title: self.title.clone(),
            description: self.describe(),
            shapes: Vec::new(),
        };
        let mut y = heading(&mut scene, &self.title, &self.about);
        y = self.legend(&mut scene, y);
        if let Some(bar) = &self.bar {
            y = draw_bar(&mut scene, bar, y);
        }
        grid.top = y;
        for index in 0..self.panels.len() {
            self.panel(&mut scene, &grid, index);
        }
        let bottom = (0..self.panels.len()).map(|index| grid.area(index).bottom()).fold(y, f64::max);
        let (first, last) = (grid.area(0), grid.area(grid.columns - 1));
        scene.text(((first.x + last.right()) / 2.0, bottom + 33.0), &self.x.title, TEXT, Anchor::Middle);
        let middle = (first.y + bottom) / 2.0;
        scene.text((MARGIN + TEXT, middle), &self.y.title, TEXT, Anchor::Middle).upward();
        finish(&mut scene, bottom + 42.0, &self.notes);
        scene
    }

    /// The room that heat maps take for their names.
    fn strip_head(&self) -> f64 {
        let has_strips = self.panels.iter().any(|panel| matches!(panel.body, Body::Strips(_)));
        if has_strips { STRIP_HEAD } else { 0.0 }
    }

    /// The figure in words: which panels there are, and what stands in them.
    fn describe(&self) -> String {
        let panels: Vec<String> = self.panels.iter().map(|p| format!("{} ({})", p.name, p.detail)).collect();
        format!("{} Across: {}. Up: {}. Panels: {}.", self.about, self.x.title, self.y.title, panels.join("; "))
    }

    fn legend(&self, scene: &mut Scene, top: f64) -> f64 {
        if self.keys.is_empty() {
            return top;
        }
        let (mut x, mut y) = (MARGIN, top + 10.0);
        for key in &self.keys {
            let width = 34.0 + font::width(&key.label, TEXT, Weight::Regular);
            if x > MARGIN && x + width > scene.width - MARGIN {
                (x, y) = (MARGIN, y + 17.0);
            }
            draw_sign(scene, key.sign, (x, y - 4.0));
            scene.text((x + 34.0, y), &key.label, TEXT, Anchor::Start);
            x += width + 18.0;
        }
        y + 10.0
    }

    fn panel(&self, scene: &mut Scene, grid: &Grid, index: usize) {
        let (panel, area) = (&self.panels[index], grid.area(index));
        let foot = area.y - self.strip_head();
        let size = font::fit(&panel.name, TEXT, Weight::Bold, area.w);
        scene.text((area.x, foot - 18.0), &panel.name, size, Anchor::Start).bold();
        let size = font::fit(&panel.detail, SMALL, Weight::Regular, area.w);
        scene.text((area.x, foot - 6.0), &panel.detail, size, Anchor::Start).colour(SOFT);
        let is_left = index.is_multiple_of(grid.columns);
        let is_lowest = index + grid.columns >= self.panels.len();
        panel::draw(scene, self, panel, panel::Place { area, is_left, is_lowest });
    }
}

/// Title and words of a figure; returns where the next thing may begin.
pub(crate) fn heading(scene: &mut Scene, title: &str, about: &str) -> f64 {
    let mut y = MARGIN + TITLE;
    let room = scene.width - 2.0 * MARGIN;
    let size = font::fit(title, TITLE, Weight::Bold, room - SUBJECT);
    scene.text((MARGIN, y), title, size, Anchor::Start).bold();
    y += 4.0;
    for line in wrap(about, TEXT, room) {
        y += 15.0;
        scene.text((MARGIN, y), line, TEXT, Anchor::Start).colour(SOFT);
    }
    y + 10.0
}

/// Notes below everything, and the height that results.
pub(crate) fn finish(scene: &mut Scene, top: f64, notes: &[String]) {
    let mut y = top;
    for note in notes {
        for line in wrap(note, SMALL, scene.width - 2.0 * MARGIN) {
            y += 14.0;
            scene.text((MARGIN, y), line, SMALL, Anchor::Start).colour(SOFT);
        }
    }
    scene.height = (y + MARGIN).ceil();
}

fn draw_sign(scene: &mut Scene, sign: Sign, (x, y): (f64, f64)) {
    match sign {
        Sign::Line { stroke, mark } => {
            scene.line(vec![(x, y), (x + 28.0, y)], stroke);
            if let Some(mark) = mark {
                scene.mark((x + 14.0, y), mark, 3.2, stroke.colour);
            }
        }
        Sign::Band(fill) => {
            let corners = vec![(x, y - 5.0), (x + 28.0, y - 5.0), (x + 28.0, y + 5.0), (x, y + 5.0)];
            scene.polygon(corners, fill, panel::BAND);
        }
        Sign::Mark(Mark::Arrow, colour) => scene.mark((x + 14.0, y + 6.0), Mark::Arrow, 3.5, colour),
        Sign::Mark(mark, colour) => scene.mark((x + 14.0, y), mark, 3.5, colour),
    }
}

/// The scale of colours with its ticks below and its title beside it.
fn draw_bar(scene: &mut Scene, bar: &Bar, top: f64) -> f64 {
    let area = Area { x: MARGIN, y: top + 2.0, w: 300.0, h: 11.0 };
    let palette: Vec<Rgb> = (0..=255).map(|k| colour::cividis(f64::from(k) / 255.0)).collect();
    scene.image(area, Pixels { columns: 256, cells: (0..=255).collect(), palette });
    scene.frame(area, Stroke::solid(INK, 0.8));
    for tick in bar.scale.ticks(6) {
        let Some(share) = bar.scale.at(tick.value) else { continue };
        let x = area.x + share * area.w;
        scene.line(vec![(x, area.bottom()), (x, area.bottom() + 3.0)], Stroke::solid(INK, 0.8));
        let half = font::width(&tick.label, SMALL, Weight::Regular) / 2.0;
        scene.text((x.max(MARGIN + half), area.bottom() + 13.0), tick.label, SMALL, Anchor::Middle);
    }
    scene.text((area.right() + 14.0, area.bottom() - 1.5), &bar.title, TEXT, Anchor::Start);
    area.bottom() + 24.0
}

/// Thin lines behind the figures.
pub(crate) const RULE: Stroke = Stroke::solid(GRID, 0.8);
