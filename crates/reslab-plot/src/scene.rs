//! A drawing: shapes in the order in which they are painted, before it is known whether they become SVG or PNG.

use crate::colour::Rgb;
use crate::font::Weight;

/// Everything that is drawn, on white.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub width: f64,
    pub height: f64,
    /// What is to be seen, for those who do not see it.
    pub title: String,
    pub description: String,
    pub shapes: Vec<Shape>,
}

/// One shape; lengths in CSS pixels, y downward.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Rect { area: Area, fill: Rgb },
    Polygon { points: Vec<(f64, f64)>, fill: Rgb, opacity: f64 },
    Line { points: Vec<(f64, f64)>, stroke: Stroke },
    Mark { at: (f64, f64), mark: Mark, size: f64, colour: Rgb },
    Text(Text),
    Image { area: Area, pixels: Pixels },
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Area {
    pub fn right(self) -> f64 {
        self.x + self.w
    }
    pub fn bottom(self) -> f64 {
        self.y + self.h
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub colour: Rgb,
    pub width: f64,
    /// Lengths of dashes and gaps; empty: solid.
    pub dash: &'static [f64],
}

impl Stroke {
    pub const fn solid(colour: Rgb, width: f64) -> Self {
        Self { colour, width, dash: &[] }
    }
}

/// A sign at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Dot,
    Square,
    Diamond,
    Triangle,
    /// A triangle that points down at its point, from above.
    Arrow,
    Cross,
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text; its point is on the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Text {
    pub at: (f64, f64),
    pub text: String,
    pub size: f64,
    pub weight: Weight,
    pub anchor: Anchor,
    pub colour: Rgb,
    /// Read from below to above.
    pub upward: bool,
}

/// Cells of a heat map, row by row from above; each is a place in the palette.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pixels {
    pub columns: usize,
    pub cells: Vec<u8>,
    pub palette: Vec<Rgb>,
}

impl Pixels {
    pub fn rows(&self) -> usize {
        self.cells.len() / self.columns.max(1)
    }

    /// The same with every cell so many times in a row, and every row so many times.
    pub fn repeat(&self, across: usize, down: usize) -> Self {
        let widen = |row: &[u8]| row.iter().flat_map(|cell| std::iter::repeat_n(*cell, across)).collect::<Vec<_>>();
        let rows = self.cells.chunks(self.columns.max(1)).map(|row| widen(row).repeat(down));
        Self { columns: self.columns * across, cells: rows.flatten().collect(), palette: self.palette.clone() }
    }
}

impl Scene {
    pub fn rect(&mut self, area: Area, fill: Rgb) {
        self.shapes.push(Shape::Rect { area, fill });
    }

    pub fn line(&mut self, points: Vec<(f64, f64)>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke });
    }

    pub fn polygon(&mut self, points: Vec<(f64, f64)>, fill: Rgb, opacity: f64) {
        self.shapes.push(Shape::Polygon { points, fill, opacity });
    }

    pub fn mark(&mut self, at: (f64, f64), mark: Mark, size: f64, colour: Rgb) {
        self.shapes.push(Shape::Mark { at, mark, size, colour });
    }

    pub fn image(&mut self, area: Area, pixels: Pixels) {
        self.shapes.push(Shape::Image { area, pixels });
    }

    /// A frame of thin lines.
    pub fn frame(&mut self, area: Area, stroke: Stroke) {
        let (right, bottom) = (area.right(), area.bottom());
        let corners = vec![(area.x, area.y), (right, area.y), (right, bottom), (area.x, bottom), (area.x, area.y)];
        self.line(corners, stroke);
    }

    pub fn text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64, anchor: Anchor) -> &mut Text {
        let (weight, colour) = (Weight::Regular, crate::colour::INK);
        self.shapes.push(Shape::Text(Text { at, text: text.into(), size, weight, anchor, colour, upward: false }));
        let Some(Shape::Text(text)) = self.shapes.last_mut() else { unreachable!("a text was just pushed") };
        text
    }
}

impl Text {
    pub fn bold(&mut self) -> &mut Self {
        self.weight = Weight::Bold;
        self
    }
    pub fn colour(&mut self, colour: Rgb) -> &mut Self {
        self.colour = colour;
        self
    }
    pub fn upward(&mut self) -> &mut Self {
        self.upward = true;
        self
    }
}

impl Mark {
    /// The corners of a sign of half-width `r` at the origin; none for those that are round or made of strokes.
    pub fn corners(self, r: f64) -> Vec<(f64, f64)> {
        match self {
            Self::Dot | Self::Cross => Vec::new(),
            Self::Square => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
            Self::Diamond => vec![(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)],
            Self::Triangle => vec![(0.0, -1.2 * r), (1.2 * r, r), (-1.2 * r, r)],
            Self::Arrow => vec![(0.0, -0.5 * r), (r, -2.5 * r), (-r, -2.5 * r)],
        }
    }
}
