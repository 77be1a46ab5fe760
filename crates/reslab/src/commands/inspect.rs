//! `reslab inspect CHECKPOINT`: per block and branch the learned scale, and what the branch adds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use reslab_plot::{Profile, profile_plot};
use reslab_pretrained::{Layout, Pretrained};
use reslab_record::{Branch, write_atomic};
use reslab_residual::Registry;

use crate::columns::thousands;
use crate::inspect::{Look, Row, csv, gammas, lines, look, rows, summary};
use crate::outcome::{Exit, Usage};
use crate::sources::DataOptions;
use crate::terminal::{note, say};

/// Shown below the arguments.
pub(crate) const HELP: &str = "\
CHECKPOINT is a run's folder, its checkpoint.safetensors, or a file of timm, transformers or the authors of DINOv2, DINOv3, DeiT-III \
and CaiT. Gammas are read off the file. With --data the first validation images pass through the network, and each join's update is \
compared with the residual that it is added to: ratio is the mean over tokens of |update| / |residual|, cosine that of their angle. \
participation = (sum gamma^2)^2 / (D sum gamma^4): the share of channels that carry a branch.";

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The network
    checkpoint: PathBuf,
    /// Look at what each branch adds, on images of this data set
    #[arg(long, value_name = "NAME")]
    data: Option<String>,
    /// Images to look at
    #[arg(long, value_name = "N", default_value_t = 64, requires = "data", value_parser = clap::value_parser!(u64).range(1..))]
    images: u64,
    /// Heads of the network's attention, where the file does not tell
    #[arg(long, value_name = "H")]
    num_heads: Option<i64>,
    /// Also write inspect.csv, inspect.svg and inspect.png into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sources: DataOptions,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let file = Pretrained::open(&arguments.checkpoint).map_err(Usage::error)?;
    say(described(&file));
    let found = match &arguments.data {
        None => None,
        Some(dataset) => {
            let run = run_of(&file)?;
            let asked = Look { file: &file, run, dataset, images: arguments.images, num_heads: arguments.num_heads };
            Some(look(&asked, registry, &arguments.sources.sources())?)
        }
    };
    let rows = rows(&gammas(&file), found.as_ref().map_or(&[], |found| &found.sites));
    if rows.is_empty() {
        say("no gamma in this file; --data NAME shows what its branches add");
        return Ok(Exit::Done);
    }
    lines(&rows).iter().for_each(say);
    if let Some(found) = &found {
        say(format_args!("update and residual: {}", found.on));
    }
    if let Some(summary) = summary(&rows) {
        say(summary);
    }
    match &arguments.out {
        Some(folder) => write(folder, &rows, &file),
        None => Ok(()),
    }?;
    Ok(Exit::Done)
}

/// `model.safetensors: timm vit, 12 blocks of width 384, patches of 14, 22,056,576 parameters`.
fn described(file: &Pretrained) -> String {
    let network = file.architecture();
    let parameters: usize =
        file.mapped().iter().map(|mapped| mapped.parts.iter().map(|part| part.numel()).sum::<usize>()).sum();
    format!(
        "{}: {}, {} blocks of width {}, patches of {}, {} parameters",
        file.path().display(),
        file.layout(),
        network.depth,
        network.width,
        network.patch_size,
        thousands(parameters as u64)
    )
}

/// The tables of the run that the checkpoint is of; none of a file from elsewhere.
fn run_of(file: &Pretrained) -> Result<Option<toml::Table>> {
    if file.layout() != Layout::Reslab {
        return Ok(None);
    }
    let path = file.path().with_file_name("config.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{}: cannot be read; it tells how the run's branches join", path.display()))?;
    let table = text.parse().map_err(|error| Usage::error(format!("{}: {error}", path.display())))?;
    Ok(Some(table))
}

fn write(folder: &Path, rows: &[Row], file: &Pretrained) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    write_atomic(&folder.join("inspect.csv"), &csv(rows)?)?;
    note(format_args!("wrote {}", folder.join("inspect.csv").display()));
    let subject = file.path().file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let profiles = [
        (
            "gamma, rms over channels",
            rows.iter().any(|row| row.gamma.is_some()),
            Row::gamma_rms as fn(&Row) -> Option<f64>,
        ),
        ("update ratio, mean over tokens", rows.iter().any(|row| row.adds.is_some()), Row::ratio),
    ];
    let profiles = profiles
        .into_iter()
        .filter(|(_, is_known, _)| *is_known)
        .map(|(name, _, figure)| Profile {
            name: name.to_owned(),
            lines: [Branch::Attention, Branch::Mlp].map(|b| points(rows, b, figure)),
        })
        .collect();
    let about = "Learned scale of each branch, and what the branch adds to the residual: |update| / |residual|. Signs are left out.";
    match profile_plot("Gamma and what the branches add", about, &subject, profiles)? {
        Ok(plot) => {
            write_atomic(&folder.join("inspect.svg"), plot.svg.as_bytes())?;
            write_atomic(&folder.join("inspect.png"), &plot.png)?;
            note(format_args!("wrote {}", folder.join("inspect.svg").display()));
        }
        Err(reason) => note(format_args!("no plot: {reason}")),
    }
    Ok(())
}

fn points(rows: &[Row], branch: Branch, figure: fn(&Row) -> Option<f64>) -> Vec<(f64, f64)> {
    let of_branch = rows.iter().filter(|row| row.place.branch == branch && !row.place.in_class_stage);
    of_branch.filter_map(|row| Some((row.place.block as f64, figure(row)?))).collect()
}
