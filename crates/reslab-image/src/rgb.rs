//! An image of three channels.

/// An image of red, green and blue bytes, row by row, pixel by pixel: `[H, W, 3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rgb {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

/// A part of an image, in whole pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First row.
    pub top: u32,
    /// First column.
    pub left: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl Rgb {
    /// An image from its bytes.
    ///
    /// # Panics
    /// If there are not three bytes per pixel, or no pixel at all.
    pub fn new(width: u32, height: u32, pixels: Vec<u8>) -> Self {
        assert!(width > 0 && height > 0, "an image has pixels, but this one is {width} x {height}");
        assert_eq!(pixels.len(), 3 * width as usize * height as usize, "bytes of {width} x {height} pixels");
        Self { width, height, pixels }
    }

    /// Columns.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// `[H, W, 3]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    pub(crate) fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// All of it.
    pub fn region(&self) -> Region {
        Region { top: 0, left: 0, height: self.height, width: self.width }
    }

    /// A part of it.
    ///
    /// # Panics
    /// If the part is not inside the image.
    pub fn crop(&self, part: Region) -> Self {
        let (row, len) = (3 * self.width as usize, 3 * part.width as usize);
        let rows = (part.top as usize..).take(part.height as usize);
        let starts = rows.map(|y| y * row + 3 * part.left as usize);
        let rows: Vec<&[u8]> = starts.map(|start| &self.pixels[start..start + len]).collect();
        Self::new(part.width, part.height, rows.concat())
    }

    /// Writes it channel by channel, `[3, H, W]`, as networks read images.
    ///
    /// # Panics
    /// If `planes` has another size.
    pub fn write_planes(&self, planes: &mut [u8]) {
        assert_eq!(planes.len(), self.pixels.len(), "bytes of the planes");
        let plane = self.pixels.len() / 3;
        let (red, rest) = planes.split_at_mut(plane);
        let (green, blue) = rest.split_at_mut(plane);
        for (nth, pixel) in self.pixels.chunks_exact(3).enumerate() {
            (red[nth], green[nth], blue[nth]) = (pixel[0], pixel[1], pixel[2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_and_parts_hold_the_pixels_in_order() {
        let image = Rgb::new(3, 2, (0..18).collect());
        let mut planes = [0; 18];
        image.write_planes(&mut planes);
        assert_eq!(planes[..6], [0, 3, 6, 9, 12, 15]);
        assert_eq!(planes[12..], [2, 5, 8, 11, 14, 17]);
        let part = image.crop(Region { top: 1, left: 1, height: 1, width: 2 });
        assert_eq!((part.width(), part.height(), part.pixels()), (2, 1, &[12, 13, 14, 15, 16, 17][..]));
        assert_eq!(image.crop(image.region()), image);
    }
}
