//! The operations of RandAugment (Cubuk et al. 2020, arXiv:1909.13719), and what a magnitude means to each, as timm defines it.

use crate::Rgb;
use crate::affine::rotation;
use crate::tone::{autocontrast, equalize, lut};

/// Magnitudes are 0 to this.
pub const MAX_MAGNITUDE: f64 = 10.0;

/// An operation on an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Each channel stretched over all bytes.
    AutoContrast,
    /// Each channel's histogram flattened.
    Equalize,
    /// 255 - x.
    Invert,
    /// Degrees against the clock.
    Rotate(f64),
    /// Upper bits of each byte that stay.
    Posterize(u32),
    /// Bytes from this one on are inverted.
    Solarize(u32),
    /// What is added to bytes below 128.
    SolarizeAdd(u32),
    /// 0: grey, 1: as it is.
    Color(f64),
    /// 0: one grey, 1: as it is.
    Contrast(f64),
    /// 0: black, 1: as it is.
    Brightness(f64),
    /// 0: smoothed, 1: as it is.
    Sharpness(f64),
    /// Columns by which each row is moved against the one above.
    ShearX(f64),
    /// Rows by which each column is moved against the one before.
    ShearY(f64),
    /// Part of the width by which all moves.
    TranslateX(f64),
    /// Part of the height by which all moves.
    TranslateY(f64),
}

/// How strong an operation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Strength {
    /// 0 to [`MAX_MAGNITUDE`].
    pub magnitude: f64,
    /// Whether an operation that has two directions goes the other way.
    pub negative: bool,
    /// Whether all operations change more with a larger magnitude. Otherwise posterize and solarize change less, and colour, contrast,
    /// brightness and sharpness go from a factor of .1 to one of 1.9.
    pub increasing: bool,
}

impl Op {
    /// How many operations there are.
    pub const COUNT: usize = 15;

    /// The operation of that number, in timm's order.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn of(number: usize, strength: Strength) -> Self {
        let Strength { magnitude, negative, increasing } = strength;
        let level = magnitude / MAX_MAGNITUDE;
        let signed = |value: f64| if negative { -value } else { value };
        let factor = if increasing { (1.0 + signed(level * 0.9)).max(0.1) } else { level * 1.8 + 0.1 };
        let down = |value: u32, whole: u32| if increasing { whole - value } else { value };
        match number {
            0 => Self::AutoContrast,
            1 => Self::Equalize,
            2 => Self::Invert,
            3 => Self::Rotate(signed(level * 30.0)),
            4 => Self::Posterize(down((level * 4.0) as u32, 4)),
            5 => Self::Solarize(down(((level * 256.0) as u32).min(256), 256)),
            6 => Self::SolarizeAdd(((level * 110.0) as u32).min(128)),
            7 => Self::Color(factor),
            8 => Self::Contrast(factor),
            9 => Self::Brightness(factor),
            10 => Self::Sharpness(factor),
            11 => Self::ShearX(signed(level * 0.3)),
            12 => Self::ShearY(signed(level * 0.3)),
            13 => Self::TranslateX(signed(level * 0.45)),
            14 => Self::TranslateY(signed(level * 0.45)),
            _ => panic!("there are {} operations, but number {number} was asked for", Self::COUNT),
        }
    }
}

impl Rgb {
    /// The image after an operation; `fill` is what comes in from outside.
    pub fn altered(self, op: Op, fill: [u8; 3]) -> Self {
        let (width, height) = (self.width(), self.height());
        match op {
            Op::AutoContrast => self.map_by_histogram(autocontrast),
            Op::Equalize => self.map_by_histogram(equalize),
            Op::Invert => self.map([lut(|byte| 255 - byte); 3]),
            Op::Posterize(bits) => self.map([lut(|byte| byte & !(0xff >> bits.min(8)) as u8); 3]),
            Op::Solarize(from) => self.map([lut(|byte| if u32::from(byte) < from { byte } else { 255 - byte }); 3]),
            Op::SolarizeAdd(add) => {
                let add = |byte: u8| if byte < 128 { (u32::from(byte) + add).min(255) as u8 } else { byte };
                self.map([lut(add); 3])
            }
            Op::Color(factor) => self.color(factor),
            Op::Contrast(factor) => self.contrast(factor),
            Op::Brightness(factor) => self.brightness(factor),
            Op::Sharpness(factor) => self.sharpness(factor),
            // Pillow gives back the image itself, not one that was interpolated.
            Op::Rotate(0.0) => self,
            Op::Rotate(degrees) => self.affine(rotation(degrees, width, height), fill),
            Op::ShearX(factor) => self.affine([1.0, factor, 0.0, 0.0, 1.0, 0.0], fill),
            Op::ShearY(factor) => self.affine([1.0, 0.0, 0.0, factor, 1.0, 0.0], fill),
            Op::TranslateX(share) => self.affine([1.0, 0.0, share * f64::from(width), 0.0, 1.0, 0.0], fill),
            Op::TranslateY(share) => self.affine([1.0, 0.0, 0.0, 0.0, 1.0, share * f64::from(height)], fill),
        }
    }
}
