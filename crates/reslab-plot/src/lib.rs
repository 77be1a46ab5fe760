//! Records become plots: SVG, and PNG of the same drawing.
//!
//! [`write_plots`] reads the rows of a sweep's runs and writes `plots/`, one file per plot, arms as panels with equal axes.
//! A plot is a scene of simple shapes, written as SVG by svg and as pixels by raster with an embedded font.
//! It can be read in grey and with any colour vision: lines differ in dashes and marks, and the scale of colours grows
//! lighter all the way.
//!
//! Equal records give equal bytes: nothing is drawn of dates, hosts, paths or the order of a hash map. What is not
//! recorded is left out, with the reason ([`Plots::left_out`]), or said in the plot.

mod colour;
mod curves;
mod error;
mod figure;
mod font;
mod forest;
mod heat;
mod layers;
mod lines;
mod panel;
mod profile;
mod raster;
mod scale;
mod scene;
mod series;
mod study;
mod svg;
mod write;

pub use colour::line_colours;
pub use error::PlotError;
pub use lines::SMOOTH_STEPS;
pub use profile::{Profile, profile_plot};
pub use series::smooth;
pub use write::{Plot, Plots, plots, write_plots};
