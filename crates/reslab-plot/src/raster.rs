//! A scene as PNG, drawn with the embedded font: no font, library or program of the machine is needed.

use std::borrow::Cow;
use tiny_skia::{
    FillRule, FilterQuality, LineJoin, Paint, Path, PathBuilder, Pixmap, PixmapPaint, Rect, StrokeDash, Transform,
};

use crate::PlotError;
use crate::colour::Rgb;
use crate::font;
use crate::scene::{Anchor, Area, Mark, Pixels, Scene, Shape, Stroke, Text};

/// Pixels of the PNG per CSS pixel: sharp on a dense screen and in print.
const SCALE: f32 = 2.0;

/// The PNG file of a scene.
pub(crate) fn png(scene: &Scene) -> Result<Vec<u8>, PlotError> {
    let side = |length: f64| (length as f32 * SCALE).round().max(1.0) as u32;
    let (width, height) = (side(scene.width), side(scene.height));
    let mut canvas = Canvas { map: Pixmap::new(width, height).ok_or(PlotError::TooLarge { width, height })? };
    canvas.map.fill(tiny_skia::Color::WHITE);
    for shape in &scene.shapes {
        canvas.draw(shape);
    }
    // On white everything is opaque: the fourth channel says nothing.
    let rgb: Vec<u8> = canvas.map.data().chunks(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    write(encoder, &rgb)?;
    Ok(bytes)
}

/// A heat map's cells as a PNG file with a palette, for the SVG to hold.
pub(crate) fn encode_indexed(pixels: &Pixels) -> Result<Vec<u8>, PlotError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixels.columns as u32, pixels.rows() as u32);
    encoder.set_color(png::ColorType::Indexed);
    let palette: Vec<u8> = pixels.palette.iter().flat_map(|c| [c.0, c.1, c.2]).collect();
    encoder.set_palette(Cow::Owned(palette));
    encoder.set_compression(png::Compression::High);
    write(encoder, &pixels.cells)?;
    Ok(bytes)
}

fn write(mut encoder: png::Encoder<&mut Vec<u8>>, data: &[u8]) -> Result<(), PlotError> {
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(data)?;
    writer.finish()?;
    Ok(())
}

struct Canvas {
    map: Pixmap,
}

fn paint(colour: Rgb, opacity: f64) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(colour.0, colour.1, colour.2, (opacity * 255.0).round() as u8);
    paint
}

fn scaled() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect { area, fill } => {
                let Area { x, y, w, h } = *area;
                let Some(rect) = Rect::from_xywh(x as f32, y as f32, w as f32, h as f32) else { return };
                self.map.fill_rect(rect, &paint(*fill, 1.0), scaled(), None);
            }
            Shape::Polygon { points, fill, opacity } => self.fill(closed(points), paint(*fill, *opacity), scaled()),
            Shape::Line { points, stroke } => self.stroke(open(points), stroke),
            Shape::Mark { at, mark, size, colour } => self.sign(*at, *mark, *size, *colour),
            Shape::Text(text) => self.words(text),
            Shape::Image { area, pixels } => self.image(*area, pixels),
        }
    }

    fn fill(&mut self, path: Option<Path>, paint: Paint, transform: Transform) {
        if let Some(path) = path {
            self.map.fill_path(&path, &paint, FillRule::Winding, transform, None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, stroke: &Stroke) {
        let Some(path) = path else { return };
        let dash = stroke.dash.iter().map(|length| *length as f32).collect::<Vec<_>>();
        let dash = if dash.is_empty() { None } else { StrokeDash::new(dash, 0.0) };
        let pen =
            tiny_skia::Stroke { width: stroke.width as f32, line_join: LineJoin::Round, dash, ..Default::default() };
        self.map.stroke_path(&path, &paint(stroke.colour, 1.0), &pen, scaled(), None);
    }

    fn sign(&mut self, (x, y): (f64, f64), mark: Mark, r: f64, colour: Rgb) {
        match mark {
            Mark::Dot => self.fill(circle(x, y, r), paint(colour, 1.0), scaled()),
            Mark::Cross => {
                for points in [[(x - r, y - r), (x + r, y + r)], [(x - r, y + r), (x + r, y - r)]] {
                    self.stroke(open(&points), &Stroke::solid(colour, 1.6));
                }
            }
            _ => {
                let corners: Vec<_> = mark.corners(r).iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
                self.fill(closed(&corners), paint(colour, 1.0), scaled());
            }
        }
    }

    fn words(&mut self, text: &Text) {
        let width = font::width(&text.text, text.size, text.weight);
        let shift = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let mut outline = Outline(PathBuilder::new());
        font::outline(&text.text, text.size, text.weight, &mut outline);
        let turn = if text.upward { -90.0 } else { 0.0 };
        // Innermost first: along the line, glyphs upside down into y downward, turned, moved, scaled.
        let transform = Transform::from_translate(shift as f32, 0.0)
            .post_scale(1.0, -1.0)
            .post_rotate(turn)
            .post_translate(text.at.0 as f32, text.at.1 as f32)
            .post_scale(SCALE, SCALE);
        self.fill(outline.0.finish(), paint(text.colour, 1.0), transform);
    }

    fn image(&mut self, area: Area, pixels: &Pixels) {
        let (columns, rows) = (pixels.columns, pixels.rows());
        let Some(mut map) = Pixmap::new(columns as u32, rows as u32) else { return };
        for (target, cell) in map.pixels_mut().iter_mut().zip(&pixels.cells) {
            let c = pixels.palette[usize::from(*cell)];
            *target = tiny_skia::ColorU8::from_rgba(c.0, c.1, c.2, 255).premultiply();
        }
        let paint = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
        let transform = Transform::from_scale(area.w as f32 / columns as f32, area.h as f32 / rows as f32)
            .post_translate(area.x as f32, area.y as f32)
            .post_scale(SCALE, SCALE);
        self.map.draw_pixmap(0, 0, map.as_ref(), &paint, transform, None);
    }
}

fn circle(x: f64, y: f64, r: f64) -> Option<Path> {
    PathBuilder::from_circle(x as f32, y as f32, r as f32)
}

fn open(points: &[(f64, f64)]) -> Option<Path> {
    outline(points).finish()
}

fn closed(points: &[(f64, f64)]) -> Option<Path> {
    let mut builder = outline(points);
    builder.close();
    builder.finish()
}

fn outline(points: &[(f64, f64)]) -> PathBuilder {
    let mut builder = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        match index {
            0 => builder.move_to(*x as f32, *y as f32),
            _ => builder.line_to(*x as f32, *y as f32),
        }
    }
    builder
}

/// Glyphs as a path.
struct Outline(PathBuilder);

impl ttf_parser::OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::{BLUE, INK, WHITE};

    /// Red, green and blue of a point of the scene.
    fn decode(scene: &Scene) -> impl Fn(usize, usize) -> Rgb + use<> {
        let bytes = png(scene).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut data = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut data).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (80, 40, png::ColorType::Rgb));
        move |x, y| {
            let at = 3 * (2 * y * 80 + 2 * x);
            Rgb(data[at], data[at + 1], data[at + 2])
        }
    }

    fn blank() -> Scene {
        Scene { width: 40.0, height: 20.0, title: String::new(), description: String::new(), shapes: Vec::new() }
    }

    #[test]
    fn shapes_stand_where_the_scene_has_them() {
        let mut scene = blank();
        scene.rect(Area { x: 2.0, y: 2.0, w: 10.0, h: 6.0 }, BLUE);
        scene.image(
            Area { x: 20.0, y: 10.0, w: 10.0, h: 10.0 },
            Pixels { columns: 2, cells: vec![0, 1, 1, 0], palette: vec![INK, BLUE] },
        );
        scene.line(vec![(0.0, 15.0), (18.0, 15.0)], Stroke::solid(INK, 2.0));
        let at = decode(&scene);
        assert_eq!([at(0, 0), at(5, 5), at(13, 5), at(5, 10)], [WHITE, BLUE, WHITE, WHITE]);
        assert_eq!([at(22, 12), at(27, 12), at(22, 17), at(27, 17)], [INK, BLUE, BLUE, INK]);
        assert_eq!(at(9, 15), INK);
    }

    /// With the embedded font alone: a bar of letters `I` is dark where the text stands, and white without one.
    #[test]
    fn text_is_drawn_upright_and_upward() {
        let inked = |scene: &Scene| -> Vec<(usize, usize)> {
            let at = decode(scene);
            let points = (0..40).flat_map(|x| (0..20).map(move |y| (x, y)));
            points.filter(|(x, y)| at(*x, *y).0 < 100).collect()
        };
        assert!(inked(&blank()).is_empty());
        let mut upright = blank();
        upright.text((10.0, 18.0), "I", 20.0, Anchor::Start).bold();
        let points = inked(&upright);
        assert!(
            points.len() > 20 && points.iter().all(|(x, y)| (10..16).contains(x) && (3..18).contains(y)),
            "{points:?}"
        );
        let mut upward = blank();
        upward.text((30.0, 18.0), "I", 20.0, Anchor::Start).bold().upward();
        let points = inked(&upward);
        assert!(
            points.len() > 20 && points.iter().all(|(x, y)| (14..31).contains(x) && (12..19).contains(y)),
            "{points:?}"
        );
    }
}
