//! A scene as SVG: one element per shape, numbers to a tenth of a pixel, nothing that differs between two writings.

use std::fmt::Write;

use crate::PlotError;
use crate::colour::Rgb;
use crate::font::{FAMILIES, Weight};
use crate::raster::encode_indexed;
use crate::scene::{Anchor, Area, Mark, Scene, Shape, Stroke, Text};

/// The SVG file of a scene.
pub(crate) fn svg(scene: &Scene) -> Result<String, PlotError> {
    let (w, h) = (number(scene.width), number(scene.height));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
         font-family=\"{FAMILIES}\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n",
        escape(&scene.title),
        escape(&scene.description)
    );
    for shape in &scene.shapes {
        element(&mut out, shape)?;
        out.push('\n');
    }
    out.push_str("</svg>\n");
    Ok(out)
}

fn element(out: &mut String, shape: &Shape) -> Result<(), PlotError> {
    match shape {
        Shape::Rect { area, fill } => put(out, format_args!("<rect {} fill=\"{}\"/>", place(*area), hex(*fill))),
        Shape::Polygon { points, fill, opacity } => {
            put(out, format_args!("<path d=\"{}Z\" fill=\"{}\" fill-opacity=\"{opacity}\"/>", path(points), hex(*fill)))
        }
        Shape::Line { points, stroke } => {
            put(out, format_args!("<path d=\"{}\" fill=\"none\" {}/>", path(points), pen(stroke)));
        }
        Shape::Mark { at, mark, size, colour } => sign(out, *at, *mark, *size, *colour),
        Shape::Text(text) => words(out, text),
        Shape::Image { area, pixels } => {
            // Viewers that smooth images whatever they are told smooth over one pixel of it: each is one of the page.
            let times = |length: f64, cells: usize| (length / cells as f64).ceil().clamp(1.0, 16.0) as usize;
            let large = pixels.repeat(times(area.w, pixels.columns), times(area.h, pixels.rows()));
            let data = base64(&encode_indexed(&large)?);
            put(
                out,
                format_args!(
                    "<image {} preserveAspectRatio=\"none\" style=\"image-rendering:optimizeSpeed;image-rendering:pixelated\" \
                     href=\"data:image/png;base64,{data}\"/>",
                    place(*area)
                ),
            );
        }
    }
    Ok(())
}

fn put(out: &mut String, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a string can be written");
}

fn sign(out: &mut String, (x, y): (f64, f64), mark: Mark, r: f64, colour: Rgb) {
    let (cx, cy, ink) = (number(x), number(y), hex(colour));
    match mark {
        Mark::Dot => put(out, format_args!("<circle cx=\"{cx}\" cy=\"{cy}\" r=\"{}\" fill=\"{ink}\"/>", number(r))),
        Mark::Cross => {
            let arms = [[(x - r, y - r), (x + r, y + r)], [(x - r, y + r), (x + r, y - r)]];
            let d: String = arms.iter().map(|arm| path(arm)).collect();
            put(out, format_args!("<path d=\"{d}\" fill=\"none\" {}/>", pen(&Stroke::solid(colour, 1.6))));
        }
        _ => {
            let corners: Vec<_> = mark.corners(r).iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            put(out, format_args!("<path d=\"{}Z\" fill=\"{ink}\"/>", path(&corners)));
        }
    }
}

fn words(out: &mut String, text: &Text) {
    let (x, y) = (number(text.at.0), number(text.at.1));
    put(
        out,
        format_args!("<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"", number(text.size), hex(text.colour)),
    );
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
        Anchor::End => out.push_str(" text-anchor=\"end\""),
    }
    if text.weight == Weight::Bold {
        out.push_str(" font-weight=\"bold\"");
    }
    if text.upward {
        put(out, format_args!(" transform=\"rotate(-90 {x} {y})\""));
    }
    put(out, format_args!(">{}</text>", escape(&text.text)));
}

fn place(area: Area) -> String {
    let Area { x, y, w, h } = area;
    format!("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(x), number(y), number(w), number(h))
}

fn pen(stroke: &Stroke) -> String {
    let dash: Vec<String> = stroke.dash.iter().map(|length| number(*length)).collect();
    let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", dash.join(" ")) };
    format!(
        "stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}",
        hex(stroke.colour),
        number(stroke.width)
    )
}

/// `M1 2L3 4 5 6`.
fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        d.push_str(match index {
            0 => "M",
            1 => "L",
            _ => " ",
        });
        put(&mut d, format_args!("{} {}", number(*x), number(*y)));
    }
    d
}

/// A tenth of a pixel is finer than the eye, and a rounded zero has no sign.
fn number(x: f64) -> String {
    let tenths = (x * 10.0).round();
    debug_assert!(tenths.is_finite(), "a coordinate is finite");
    let text = format!("{}", tenths / 10.0);
    if text == "-0" { "0".to_owned() } else { text }
}

fn hex(colour: Rgb) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// Text as it may stand in XML; control characters, which XML has no way to write, become spaces.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, want) in cases {
            assert_eq!(base64(plain.as_bytes()), want);
        }
    }

    #[test]
    fn numbers_are_short_and_texts_are_safe() {
        assert_eq!([1.0, 0.25, -0.04, 12.349].map(number), ["1", "0.3", "0", "12.3"]);
        assert_eq!(escape("a<b> & \"c\"\n\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;  ");
        assert_eq!(path(&[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]), "M1 2L3 4 5 6");
    }
}
