//! All plots of a sweep: drawn, and written into its folder.

use reslab_record::{clear_partials, write_if_new};
use reslab_report::{Sweep, Table, map_parallel};
use std::io::ErrorKind;
use std::path::Path;

use crate::colour::SOFT;
use crate::figure::{MARGIN, SMALL, SUBJECT, TITLE};
use crate::font::{self, Weight};
use crate::scene::{Anchor, Scene};
use crate::study::Study;
use crate::{PlotError, forest, heat, layers, lines, raster, svg};

/// One plot of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The name of its files, without ending: `loss`.
    pub name: &'static str,
    /// What it is headed.
    pub title: String,
    /// Itself.
    pub svg: String,
    /// The same in pixels.
    pub png: Vec<u8>,
}

/// The plots of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plots {
    /// Those that there are, in a fixed order.
    pub drawn: Vec<Plot>,
    /// Name of each that there is not, and why.
    pub left_out: Vec<(&'static str, String)>,
}

type Draw = fn(&Study) -> Result<Scene, String>;

/// Every plot, in the order in which they are best looked at.
const ALL: [(&str, Draw); 15] = [
    ("differences", forest::forest),
    ("loss", |study| lines::loss(study).map(|figure| figure.draw())),
    ("val_accuracy", |study| lines::accuracy(study).map(|figure| figure.draw())),
    ("grad_norm", |study| lines::grad_norm(study).map(|figure| figure.draw())),
    ("learning_rate", |study| lines::learning_rate(study).map(|figure| figure.draw())),
    ("depth", |study| lines::depth(study).map(|figure| figure.draw())),
    ("update_ratio", |study| layers::heat(study, heat::RATIO).map(|figure| figure.draw())),
    ("gamma", |study| layers::heat(study, heat::GAMMA).map(|figure| figure.draw())),
    ("residual_rms", |study| layers::residual_rms(study).map(|figure| figure.draw())),
    ("gate_mean", |study| layers::heat(study, heat::GATE_MEAN).map(|figure| figure.draw())),
    ("gate_saturated", |study| layers::heat(study, heat::GATE_SATURATED).map(|figure| figure.draw())),
    ("cosine", |study| layers::heat(study, heat::COSINE).map(|figure| figure.draw())),
    ("attention_logit_max", |study| layers::heat(study, heat::LOGIT_MAX).map(|figure| figure.draw())),
    ("attention_entropy", |study| layers::heat(study, heat::ENTROPY).map(|figure| figure.draw())),
    ("token_similarity", |study| layers::heat(study, heat::SIMILARITY).map(|figure| figure.draw())),
];

/// Draws every plot for which the records of the sweep's folder `dir` have the figures. `sweep` and `table` are what
/// was read there. Equal records give equal bytes.
///
/// # Errors
/// A plot is too large to be drawn.
pub fn plots(dir: &Path, sweep: &Sweep, table: &Table) -> Result<Plots, PlotError> {
    let study = Study::read(dir, sweep, table);
    let subject = study.subject();
    let mut plots = Plots { drawn: Vec::new(), left_out: Vec::new() };
    for (name, result) in map_parallel(&ALL, |(name, draw)| (*name, finish(name, &subject, draw(&study)))) {
        match result? {
            Ok(plot) => plots.drawn.push(plot),
            Err(reason) => plots.left_out.push((name, reason)),
        }
    }
    Ok(plots)
}

pub(crate) fn finish(
    name: &'static str,
    subject: &str,
    scene: Result<Scene, String>,
) -> Result<Result<Plot, String>, PlotError> {
    let mut scene = match scene {
        Ok(scene) => scene,
        Err(reason) => return Ok(Err(reason)),
    };
    let size = font::fit(subject, SMALL, Weight::Regular, SUBJECT - 10.0);
    scene.text((scene.width - MARGIN, MARGIN + TITLE), subject, size, Anchor::End).colour(SOFT);
    Ok(Ok(Plot { name, title: scene.title.clone(), svg: svg::svg(&scene)?, png: raster::png(&scene)? }))
}

/// The same, written to `plots/<name>.svg` and `.png` in the sweep's folder, each by rename. A plot of an earlier writing
/// for which there are no figures any more is removed.
///
/// # Errors
/// As [`plots`], or a file cannot be written.
pub fn write_plots(dir: &Path, sweep: &Sweep, table: &Table) -> Result<Plots, PlotError> {
    let plots = plots(dir, sweep, table)?;
    let folder = dir.join("plots");
    if !plots.drawn.is_empty() {
        std::fs::create_dir_all(&folder).map_err(|source| PlotError::Io { path: folder.clone(), source })?;
        clear_partials(&folder)?;
    }
    for plot in &plots.drawn {
        write_if_new(&folder.join(format!("{}.svg", plot.name)), plot.svg.as_bytes())?;
        write_if_new(&folder.join(format!("{}.png", plot.name)), &plot.png)?;
    }
    for (name, _) in &plots.left_out {
        for path in ["svg", "png"].map(|ending| folder.join(format!("{name}.{ending}"))) {
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != ErrorKind::NotFound => return Err(PlotError::Io { path, source }),
                _ => {}
            }
        }
    }
    Ok(plots)
}
