//! Images on the host, one at a time: folders of them, decoded, resized and altered as Pillow and torchvision do it.
//!
//! - [`Rgb`] is an image; [`resize_plane`] resizes one channel, for sets that are kept as planes.
//!
//! Nothing here is random, and nothing needs libtorch: every function is told what to do with an image.

mod resize;
mod rgb;

pub use resize::resize_plane;
pub use rgb::{Region, Rgb};
