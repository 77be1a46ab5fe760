//! Rotation, shear and translation: `Image.transform(size, AFFINE, .., BICUBIC)` of Pillow, whose kernel here is that of a = -1.

use crate::Rgb;

/// Source coordinates of a target pixel: x' = a x + b y + c, y' = d x + e y + f.
pub(crate) type Matrix = [f64; 6];

/// The matrix of `Image.rotate`: degrees against the clock, around the centre.
pub(crate) fn rotation(degrees: f64, width: u32, height: u32) -> Matrix {
    let angle = -(degrees.rem_euclid(360.0)).to_radians();
    let round = |value: f64| (value * 1e15).round_ties_even() / 1e15;
    let (cos, sin) = (round(libm::cos(angle)), round(libm::sin(angle))); // libm: the same bits on every machine
    let (x, y) = (f64::from(width) / 2.0, f64::from(height) / 2.0);
    [cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y]
}

impl Rgb {
    /// The image moved by `matrix`, `fill` where there is none.
    pub(crate) fn affine(&self, matrix: Matrix, fill: [u8; 3]) -> Self {
        let [a, b, c, d, e, f] = matrix;
        let mut pixels = Vec::with_capacity(self.pixels().len());
        for y in 0..self.height() {
            for x in 0..self.width() {
                let (x, y) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
                pixels.extend(self.at(a * x + b * y + c, d * x + e * y + f).unwrap_or(fill));
            }
        }
        Self::new(self.width(), self.height(), pixels)
    }

    /// The colour at a point, from the 16 pixels around it; nothing outside the image.
    fn at(&self, x: f64, y: f64) -> Option<[u8; 3]> {
        let (width, height) = (self.width() as i64, self.height() as i64);
        if x < 0.0 || x >= width as f64 || y < 0.0 || y >= height as f64 {
            return None;
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (left, top) = (x.floor(), y.floor());
        let (dx, dy) = (x - left, y - top);
        let columns: [usize; 4] =
            std::array::from_fn(|nth| (left as i64 - 1 + nth as i64).clamp(0, width - 1) as usize);
        let rows: [usize; 4] = std::array::from_fn(|nth| (top as i64 - 1 + nth as i64).clamp(0, height - 1) as usize);
        let byte = |row: usize, column: usize, channel: usize| {
            f64::from(self.pixels()[3 * (row * width as usize + column) + channel])
        };
        Some(std::array::from_fn(|channel| {
            let along = rows.map(|row| cubic(columns.map(|column| byte(row, column, channel)), dx));
            cubic(along, dy) as u8 // cut at both ends, and towards zero
        }))
    }
}

/// Between the second and the third of four values.
fn cubic([v1, v2, v3, v4]: [f64; 4], d: f64) -> f64 {
    let p2 = -v1 + v3;
    let p3 = 2.0 * (v1 - v2) + v3 - v4;
    let p4 = -v1 + v2 - v3 + v4;
    v2 + d * (p2 + d * (p3 + d * p4))
}
