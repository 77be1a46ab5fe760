//! Images on the host, one at a time: folders of them, decoded, resized and altered as Pillow and torchvision do it.
//!
//! - [`read`] and [`decode`] make an [`Rgb`] of a file.
//! - [`Rgb::resized`], [`Rgb::crop`], [`Rgb::centre`]; [`resize_plane`] for sets that are kept as planes.
//!
//! Nothing here is random, and nothing needs libtorch: every function is told what to do with an image.

mod decode;
mod resize;
mod rgb;

pub use decode::{Broken, MAX_PIXELS, decode, read};
pub use resize::resize_plane;
pub use rgb::{Region, Rgb};
