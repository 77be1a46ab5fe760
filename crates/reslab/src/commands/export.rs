//! `reslab export CHECKPOINT`: a network as timm or transformers reads it.

use crate::outcome::{Exit, Usage};
use crate::terminal::say;
use anyhow::Result;
use reslab_pretrained::{
    Architecture, Layout, Pretrained, PretrainedError, Target, Weight, Weights, fold_gamma, python_line, remarks,
    widen_gammas, write,
};
use reslab_record::Checkpoint;
use reslab_residual::Registry;
use std::path::{Path, PathBuf};

/// Shown below the arguments.
pub(crate) const HELP: &str = "\
CHECKPOINT is a run's folder, its checkpoint.safetensors, or a file of timm, transformers or the authors of DINOv2, DINOv3, DeiT-III \
and CaiT. For timm OUT is a file, for transformers a folder, which gets model.safetensors and config.json. What the layout has no \
place for (gates, other joins, several streams) is refused with the reason.";

/// Joins that are `y = x + gamma f(x)` or `y = x + f(x)` at every step, whatever is drawn at step 0.
const SUMS: [&str; 4] = ["plain", "layer_scale", "rezero", "skip_init"];

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The network
    checkpoint: PathBuf,
    /// The program that is to open it
    #[arg(long, value_enum)]
    layout: Program,
    /// Where to write; must not be there yet
    #[arg(long)]
    out: PathBuf,
    /// Fold gamma into the projection before it: the same function without LayerScale
    #[arg(long)]
    fold_gamma: bool,
    /// Leave the head out
    #[arg(long)]
    no_head: bool,
    /// Of a run's checkpoint: the last step's weights, their average, or those of the best validation
    #[arg(long, value_enum, default_value = "last")]
    weights: Choice,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Program {
    Timm,
    Hf,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Choice {
    Last,
    Ema,
    Best,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let choice = match arguments.weights {
        Choice::Last => Weights::Last,
        Choice::Ema => Weights::Ema,
        Choice::Best => Weights::Best,
    };
    let pretrained = Pretrained::open_weights(&arguments.checkpoint, choice).map_err(refused)?;
    if pretrained.layout() == Layout::Reslab {
        // Its own checksum, which other files don't have.
        Checkpoint::read_file(pretrained.path()).map_err(Usage::error)?;
        require_sum(pretrained.path(), registry)?;
    }
    let mut network = pretrained.architecture().clone();
    let weights = prepare(&pretrained, &mut network, arguments)?;
    let target = match arguments.layout {
        Program::Timm => Target::Timm,
        Program::Hf => Target::Hf,
    };
    let layout = target.layout(&network).map_err(refused)?;
    let file = place(&arguments.out, target)?;
    if let Err(error) = write(&file, layout, &network, weights) {
        if target == Target::Hf {
            // The folder that was made for it; one that is not empty stays.
            let _ = std::fs::remove_dir(&arguments.out);
        }
        return Err(refused(error));
    }
    report(&file, layout, &network);
    Ok(Exit::Done)
}

/// The weights that are to be written, and the network that they are of.
fn prepare<'a>(
    pretrained: &'a Pretrained,
    network: &mut Architecture,
    arguments: &Arguments,
) -> Result<Vec<Weight<'a>>> {
    let mixed = |name: &str| Usage::error(format!("{name} has parts of several types of numbers"));
    let mut weights = Vec::new();
    for mapped in pretrained.mapped() {
        weights.push(Weight::of_mapped(mapped).ok_or_else(|| mixed(&mapped.name))?);
    }
    widen_gammas(&mut weights, network.width);
    if arguments.fold_gamma {
        if !network.gamma {
            return Err(Usage::error("--fold-gamma: the network has no gamma"));
        }
        weights = fold_gamma(weights);
        network.gamma = false;
    }
    if arguments.no_head {
        weights.retain(|weight| !weight.name.starts_with("head."));
        network.classes = None;
    }
    Ok(weights)
}

/// The joins of a run must be sums: others have the same parameters and another function.
fn require_sum(checkpoint: &Path, registry: &Registry) -> Result<()> {
    let path = checkpoint.with_file_name("config.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Usage::error(format!("{}: {e}; it tells how the run's branches join", path.display())))?;
    let config: toml::Table = text.parse().map_err(|e| Usage::error(format!("{}: {e}", path.display())))?;
    let residual = config.get("residual").and_then(toml::Value::as_table);
    let kind = residual.and_then(|table| table.get("kind")).and_then(toml::Value::as_str);
    let Some(kind) = kind else { return Err(Usage::error(format!("{}: no residual.kind", path.display()))) };
    if SUMS.contains(&kind) {
        return Ok(());
    }
    let equation = registry.get(kind).map_or_else(String::new, |variant| format!(" ({})", variant.equation));
    Err(Usage::error(format!(
        "{}: strategy `{kind}`{equation} has no counterpart in timm and transformers, whose joins are y = x + f(x) and \
         y = x + gamma f(x); {} can be exported",
        path.display(),
        SUMS.join(", ")
    )))
}

/// The file to write. For transformers it stands in a folder of its own.
fn place(out: &Path, target: Target) -> Result<PathBuf> {
    let is_file = out.extension().is_some_and(|extension| extension == "safetensors");
    match target {
        Target::Hf if is_file => {
            return Err(Usage::error(format!("--out {}: transformers opens a folder, not a file", out.display())));
        }
        Target::Timm if !is_file => {
            return Err(Usage::error(format!("--out {}: must end with .safetensors", out.display())));
        }
        _ => {}
    }
    if out.exists() {
        return Err(Usage::error(format!("--out {}: is there already", out.display())));
    }
    match target {
        Target::Timm => Ok(out.to_owned()),
        Target::Hf => {
            std::fs::create_dir_all(out).map_err(|e| Usage::error(format!("--out {}: {e}", out.display())))?;
            Ok(out.join("model.safetensors"))
        }
    }
}

fn report(file: &Path, layout: Layout, network: &Architecture) {
    let remarks = remarks(layout, network).iter().map(|remark| format!("; {remark}")).collect::<String>();
    let line = python_line(file, layout, network);
    say(format_args!("wrote {} as {layout}{remarks}; open it: {line}", file.display()));
}

/// A file that is not what it should be, or a network that the layout can't hold, is an error of the call.
fn refused(error: PretrainedError) -> anyhow::Error {
    match error {
        PretrainedError::Write(error) => error.into(),
        error => Usage::error(error),
    }
}
