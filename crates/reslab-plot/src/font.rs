//! The embedded font: how wide a text is, and the outlines that the PNG is drawn with.

use std::sync::LazyLock;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// What an SVG asks for: all of these have the widths of the embedded font.
pub(crate) const FAMILIES: &str = "Arimo, 'Liberation Sans', Arial, Helvetica, sans-serif";

static REGULAR: LazyLock<Face<'static>> = LazyLock::new(|| face(include_bytes!("../fonts/Arimo-Regular.ttf")));
static BOLD: LazyLock<Face<'static>> = LazyLock::new(|| face(include_bytes!("../fonts/Arimo-Bold.ttf")));

/// How heavy a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    Bold,
}

fn face(bytes: &'static [u8]) -> Face<'static> {
    Face::parse(bytes, 0).expect("the embedded font is whole")
}

impl Weight {
    fn face(self) -> &'static Face<'static> {
        match self {
            Self::Regular => &REGULAR,
            Self::Bold => &BOLD,
        }
    }
}

/// Glyph 0, the box that stands for an unknown letter, where the font has none.
fn glyph(face: &Face, letter: char) -> GlyphId {
    face.glyph_index(letter).unwrap_or_default()
}

/// The width of a text, in the unit of `size`.
pub(crate) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let face = weight.face();
    let units: u32 = text.chars().map(|c| u32::from(face.glyph_hor_advance(glyph(face, c)).unwrap_or(0))).sum();
    f64::from(units) * size / f64::from(face.units_per_em())
}

/// Draws the outline of a text that starts at the origin, y upward, into `builder`, in the unit of `size`.
pub(crate) fn outline(text: &str, size: f64, weight: Weight, builder: &mut dyn OutlineBuilder) {
    let face = weight.face();
    let scale = size / f64::from(face.units_per_em());
    let mut x = 0.0;
    for letter in text.chars() {
        let id = glyph(face, letter);
        face.outline_glyph(id, &mut Placed { builder: &mut *builder, x, scale });
        x += f64::from(face.glyph_hor_advance(id).unwrap_or(0)) * scale;
    }
}

/// A glyph's outline, scaled and moved to its place in the text.
struct Placed<'a> {
    builder: &'a mut dyn OutlineBuilder,
    x: f64,
    scale: f64,
}

impl Placed<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        ((self.x + f64::from(x) * self.scale) as f32, (f64::from(y) * self.scale) as f32)
    }
}

impl OutlineBuilder for Placed<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.builder.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.builder.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.builder.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.builder.curve_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.builder.close();
    }
}

/// The text in lines that are at most `room` wide, broken between words; a word that is wider stands alone.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, Weight::Regular) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The largest size up to `size`, and no less than 7, at which a text is at most `room` wide.
pub(crate) fn fit(text: &str, size: f64, weight: Weight, room: f64) -> f64 {
    let wide = width(text, size, weight);
    if wide <= room { size } else { (size * room / wide).max(7.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arial's widths: a digit 1139 of 2048 units, `i` 455, a bold `i` 569.
    #[test]
    fn widths_are_those_of_arial() {
        assert!((width("0", 2048.0, Weight::Regular) - 1139.0).abs() < 1e-9);
        assert!((width("0i", 2048.0, Weight::Regular) - 1594.0).abs() < 1e-9);
        assert!((width("i", 2048.0, Weight::Bold) - 569.0).abs() < 1e-9);
    }

    #[test]
    fn lines_are_broken_between_words_and_keep_all_of_them() {
        let text = "one two three four five";
        let lines = wrap(text, 10.0, 60.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, 10.0, Weight::Regular) <= 60.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap("incomprehensibilities", 10.0, 20.0), ["incomprehensibilities"]);
    }

    #[test]
    fn a_text_is_made_smaller_until_it_fits() {
        assert_eq!(fit("plain", 11.0, Weight::Bold, 500.0), 11.0);
        let size = fit("layer_scale[init=1e-5]", 11.0, Weight::Bold, 110.0);
        assert!(size < 11.0 && width("layer_scale[init=1e-5]", size, Weight::Bold) <= 110.0 + 1e-9);
    }
}
