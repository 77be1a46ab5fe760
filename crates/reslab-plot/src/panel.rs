//! One panel of a figure: its axes and what is drawn over them.

use crate::colour::{INK, SOFT};
use crate::figure::{Body, Figure, Layer, Panel, RULE, SMALL, Strip};
use crate::font::{self, Weight};
use crate::scale::{Scale, Tick};
use crate::scene::{Anchor, Area, Scene, Stroke};

/// Opacity of a band.
pub(crate) const BAND: f64 = 0.22;
/// Between heat maps of one panel.
const STRIP_GAP: f64 = 7.0;
const AXIS: Stroke = Stroke::solid(INK, 0.8);

/// Where a panel stands, and which labels it therefore bears.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub area: Area,
    pub is_left: bool,
    pub is_lowest: bool,
}

/// The axes over an area.
#[derive(Clone, Copy)]
struct Axes {
    area: Area,
    x: Scale,
    y: Scale,
}

impl Axes {
    /// The place of a point; `None` where one of its figures is not a number.
    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (across, up) = (self.x.at(x)?, self.y.at(y)?);
        Some((self.area.x + across * self.area.w, self.area.bottom() - up * self.area.h))
    }
}

pub(crate) fn draw(scene: &mut Scene, figure: &Figure, panel: &Panel, place: Place) {
    let axes = Axes { area: place.area, x: figure.x.scale, y: figure.y.scale };
    let count = match &panel.body {
        Body::Strips(strips) => strips.len().max(1),
        _ => 1,
    };
    let ticks = figure.y.ticks((place.area.h / 26.0) as usize);
    if place.is_left {
        upright_labels(scene, axes, &ticks);
    }
    for (index, axes) in side_by_side(axes, count).into_iter().enumerate() {
        match &panel.body {
            Body::Curves(layers) => {
                rules(scene, axes, &ticks);
                layers.iter().for_each(|layer| draw_layer(scene, axes, layer));
            }
            Body::Strips(strips) => draw_strip(scene, axes, &strips[index]),
            Body::Empty(why) => {
                let middle = (axes.area.x + axes.area.w / 2.0, axes.area.y + axes.area.h / 2.0);
                let size = font::fit(why, SMALL, Weight::Regular, axes.area.w - 8.0);
                scene.text(middle, why, size, Anchor::Middle).colour(SOFT);
            }
        }
        scene.frame(axes.area, AXIS);
        across(scene, axes, figure.x.ticks((axes.area.w / 33.0) as usize), (place.is_lowest, index + 1 == count));
    }
}

fn side_by_side(axes: Axes, count: usize) -> Vec<Axes> {
    let w = (axes.area.w - STRIP_GAP * (count - 1) as f64) / count as f64;
    let part = |k: usize| Area { x: axes.area.x + k as f64 * (w + STRIP_GAP), w, ..axes.area };
    (0..count).map(|k| Axes { area: part(k), ..axes }).collect()
}

fn upright_labels(scene: &mut Scene, axes: Axes, ticks: &[Tick]) {
    for tick in ticks {
        let Some(up) = axes.y.at(tick.value) else { continue };
        let y = axes.area.bottom() - up * axes.area.h;
        scene.line(vec![(axes.area.x - 3.0, y), (axes.area.x, y)], AXIS);
        scene.text((axes.area.x - 6.0, y + 3.5), &tick.label, SMALL, Anchor::End);
    }
}

/// Ticks below, with labels under the lowest panel of a column. Labels stay within the panel's width; the one at the
/// right end is left out where another heat map begins with its own.
fn across(scene: &mut Scene, axes: Axes, ticks: Vec<Tick>, (with_labels, is_last): (bool, bool)) {
    let Area { x: left, w, .. } = axes.area;
    for tick in ticks {
        let Some(share) = axes.x.at(tick.value) else { continue };
        let (x, y) = (left + share * w, axes.area.bottom());
        scene.line(vec![(x, y), (x, y + 3.0)], AXIS);
        let half = font::width(&tick.label, SMALL, Weight::Regular) / 2.0;
        if with_labels && (is_last || x + half <= left + w) {
            let x = x.clamp(left + half - 3.0, (left + w - half).max(left));
            scene.text((x, y + 14.0), tick.label, SMALL, Anchor::Middle);
        }
    }
}

fn rules(scene: &mut Scene, axes: Axes, ticks: &[Tick]) {
    for tick in ticks {
        let Some(up) = axes.y.at(tick.value) else { continue };
        let y = axes.area.bottom() - up * axes.area.h;
        scene.line(vec![(axes.area.x, y), (axes.area.right(), y)], RULE);
    }
}

fn draw_layer(scene: &mut Scene, axes: Axes, layer: &Layer) {
    match layer {
        Layer::Band { points, colour } => {
            // A figure that is not a number ends a band; behind it another begins.
            for piece in points.split(|(x, low, high)| axes.at((*x, *low)).is_none() || axes.at((*x, *high)).is_none())
            {
                let upper = piece.iter().map(|(x, _, high)| (*x, *high));
                let lower = piece.iter().rev().map(|(x, low, _)| (*x, *low));
                let outline: Vec<_> = upper.chain(lower).filter_map(|point| axes.at(point)).collect();
                if piece.len() > 1 {
                    scene.polygon(outline, *colour, BAND);
                }
            }
        }
        Layer::Line { points, stroke } => {
            for piece in points.split(|point| axes.at(*point).is_none()).filter(|piece| piece.len() > 1) {
                scene.line(piece.iter().filter_map(|point| axes.at(*point)).collect(), *stroke);
            }
        }
        Layer::Marks { points, mark, size, colour } => {
            for place in points.iter().filter_map(|point| axes.at(*point)) {
                scene.mark(place, *mark, *size, *colour);
            }
        }
    }
}

fn draw_strip(scene: &mut Scene, axes: Axes, strip: &Strip) {
    let corners = (axes.at((strip.x.0, strip.y.1)), axes.at((strip.x.1, strip.y.0)));
    if let (Some((left, top)), Some((right, bottom))) = corners {
        let area = Area { x: left, y: top, w: right - left, h: bottom - top };
        scene.image(area, strip.pixels.clone());
    }
    if strip.name.is_empty() {
        return;
    }
    let middle = axes.area.x + axes.area.w / 2.0;
    scene.text((middle, axes.area.y - 4.0), strip.name, SMALL, Anchor::Middle).colour(SOFT);
}
