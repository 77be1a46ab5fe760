//! Images on the host, one at a time: folders of them, decoded, resized and altered as Pillow and torchvision do it.
//!
//! - [`read`] and [`decode`] make an [`Rgb`] of a file.
//! - [`Rgb::resized`], [`Rgb::crop`], [`Rgb::centre`]; [`resize_plane`] for sets that are kept as planes.
//! - [`Rgb::altered`] by an [`Op`] of RandAugment.
//! - [`Folder`] lists the images of a data set of class folders.
//!
//! Nothing here is random, and nothing needs libtorch: every function is told what to do with an image.

mod affine;
mod decode;
mod folder;
mod op;
mod resize;
mod rgb;
mod tone;

pub use decode::{Broken, MAX_PIXELS, decode, read};
pub use folder::{EXTENSIONS, File, Folder, FolderError, Part};
pub use op::{MAX_MAGNITUDE, Op, Strength};
pub use resize::resize_plane;
pub use rgb::{Region, Rgb};
