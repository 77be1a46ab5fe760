//! A network's parameters filled from a pretrained checkpoint: every tensor of the file finds a parameter, every
//! parameter a tensor, or nothing is written.

use std::collections::HashMap;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;

use reslab_pretrained::{Dtype, GAMMA, Layout, Mapped, Position as FilePosition, Pretrained};
use reslab_torch::Parameter;
use tch::{Device, Kind, TchError, Tensor};

use crate::{Resize, Vit};

/// What may differ between file and network. By default nothing may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// How positions of another grid are resized; `None`: as the checkpoint's own code does ([`Resize::of`]).
    pub resize: Option<Resize>,
    /// The network's head stays as it was drawn, and the file's, if it has one, is left out.
    pub replace_head: bool,
    /// What the strategy adds to the network stays as it was drawn where the file has nothing for it.
    pub new_joins: bool,
    /// Gammas of the file for which the network has no parameter are named in [`Loaded::loose`], for the caller to fold.
    pub loose_gammas: bool,
}

/// Positions of one grid brought to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// By which convention.
    pub by: Resize,
    /// Rows and columns of the file.
    pub from: [i64; 2],
    /// Rows and columns of the network.
    pub to: [i64; 2],
}

/// What was loaded, and what was not.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Who wrote the file.
    pub layout: Layout,
    /// Parameters that hold the file's values now.
    pub filled: Vec<String>,
    /// Parameters that stay as they were drawn, as the options allow: of the head, of the strategy.
    pub drawn: Vec<String>,
    /// Keys of the file's head, where the options replace it.
    pub left_out: Vec<String>,
    /// Gammas of the file that the network has no parameter for, by the name that it would have, where the options say so.
    pub loose: Vec<String>,
    /// How positions were resized, where the grids differ.
    pub resized: Option<Resized>,
    /// Keys of the file that are no parameter of any network, with the reason.
    pub ignored: Vec<(String, &'static str)>,
    /// Numbers that shapes don't tell, and that the file's writer and the table `[model]` say differently.
    pub differences: Vec<String>,
}

impl Loaded {
    fn begun(pretrained: &Pretrained) -> Loaded {
        Loaded {
            layout: pretrained.layout(),
            filled: Vec::new(),
            drawn: Vec::new(),
            left_out: Vec::new(),
            loose: Vec::new(),
            resized: None,
            ignored: pretrained.ignored().to_vec(),
            differences: Vec::new(),
        }
    }
}

impl Display for Loaded {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "{}: {} parameters filled", self.layout, self.filled.len())?;
        if let Some(Resized { by, from, to }) = self.resized {
            let [from, to] = [from, to].map(|[rows, columns]| format!("{rows} x {columns}"));
            write!(f, "; positions resized from {from} to {to} as {} does", by.name())?;
        }
        for (names, what) in [
            (&self.left_out, "left out of the file"),
            (&self.loose, "not in the network"),
            (&self.drawn, "not in the file, newly drawn"),
        ] {
            if !names.is_empty() {
                write!(f, "; {what}: {}", listed(names))?;
            }
        }
        // One reason is often that of many: a run's checkpoint holds the optimizer's state of every parameter.
        let mut reasons: Vec<&str> = self.ignored.iter().map(|(_, reason)| *reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            let keys: Vec<String> =
                self.ignored.iter().filter(|(_, r)| *r == reason).map(|(key, _)| key.clone()).collect();
            let what = if keys.len() > 8 { format!("{} keys", keys.len()) } else { keys.join(", ") };
            write!(f, "; {what} ignored: {reason}")?;
        }
        self.differences.iter().try_for_each(|difference| write!(f, "; {difference}"))
    }
}

/// Both sides of what does not fit: keys of the file and parameters of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// The file.
    pub path: PathBuf,
    /// Who wrote it.
    pub layout: Layout,
    /// Parameters for which the file has nothing.
    pub unfilled: Vec<String>,
    /// Parameters that the file has and the network lacks, with the keys.
    pub unused: Vec<String>,
    /// Parameters of another shape, with both.
    pub shapes: Vec<String>,
}

impl LoadReport {
    fn begun(pretrained: &Pretrained) -> LoadReport {
        LoadReport {
            path: pretrained.path().to_owned(),
            layout: pretrained.layout(),
            unfilled: Vec::new(),
            unused: Vec::new(),
            shapes: Vec::new(),
        }
    }
}

impl LoadReport {
    /// Whether all that does not fit are gammas of the file.
    pub fn lacks_gamma(&self) -> bool {
        let is_gamma = |unused: &String| unused.split(' ').next().is_some_and(|name| name.ends_with(GAMMA));
        self.unfilled.is_empty() && self.shapes.is_empty() && self.unused.iter().all(is_gamma)
    }
}

impl Display for LoadReport {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "{}: read as {}, but does not fit this network", self.path.display(), self.layout)?;
        for (names, what) in [
            (&self.unfilled, "parameters of the network that the file has nothing for"),
            (&self.unused, "tensors of the file that the network has no place for"),
            (&self.shapes, "of another shape"),
        ] {
            if !names.is_empty() {
                write!(f, "\n  {what} ({}): {}", names.len(), listed(names))?;
            }
        }
        Ok(())
    }
}

/// The first few names.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = if names.len() > SHOWN { ", .." } else { "" };
    names[..names.len().min(SHOWN)].join(", ") + more
}

/// Why a checkpoint could not be loaded. The network is as it was.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Tensors and parameters do not fit each other.
    #[error("{0}")]
    Unfit(Box<LoadReport>),
    /// The network does something without parameters that the file's does otherwise.
    #[error("{}: {problem}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// libtorch failed.
    #[error(transparent)]
    Torch(#[from] TchError),
}

impl Resize {
    /// The convention of a layout's own code.
    pub fn of(layout: Layout, registers: bool) -> Resize {
        match layout {
            Layout::HfDinov2 => Resize::Hf,
            Layout::FbDinov2 if !registers => Resize::Dinov2,
            // deit's main.py: bicubic, to the size.
            Layout::FbDeit3 => Resize::Hf,
            _ => Resize::Timm,
        }
    }
}

/// A parameter and what fills it.
struct Pair<'a> {
    from: &'a Mapped,
    to: &'a Parameter,
    resize: Option<Resized>,
}

impl Vit {
    /// Fills the parameters from a checkpoint. They keep their kind and device; at no time is there more in memory beside
    /// them than the largest tensor. Nothing is written unless all of it fits.
    ///
    /// # Errors
    /// What does not fit, both sides.
    pub fn load(&self, pretrained: &Pretrained, options: &LoadOptions) -> Result<Loaded, LoadError> {
        let (pairs, loaded) = self.pairs(pretrained, options)?;
        pairs.iter().try_for_each(|pair| tch::no_grad(|| pair.copy()))?;
        Ok(loaded)
    }

    /// What [`Vit::load`] would do, without doing it: for networks on [`reslab_torch::Scope::counting`] too.
    ///
    /// # Errors
    /// What does not fit, both sides.
    pub fn check_load(&self, pretrained: &Pretrained, options: &LoadOptions) -> Result<Loaded, LoadError> {
        self.pairs(pretrained, options).map(|(_, loaded)| loaded)
    }

    fn pairs<'a>(
        &'a self,
        pretrained: &'a Pretrained,
        options: &LoadOptions,
    ) -> Result<(Vec<Pair<'a>>, Loaded), LoadError> {
        self.check_rotation(pretrained)?;
        let (mut loaded, mut report) = (Loaded::begun(pretrained), LoadReport::begun(pretrained));
        loaded.differences = self.differences(pretrained);
        let mut ours: HashMap<&str, &Parameter> = self.parameters().iter().map(|p| (p.name.as_str(), p)).collect();
        let mut pairs = Vec::new();
        for from in pretrained.mapped() {
            if options.replace_head && is_head(&from.name) {
                loaded.left_out.extend(keys(from));
                continue;
            }
            let Some(to) = ours.remove(from.name.as_str()) else {
                if options.loose_gammas && from.name.ends_with(GAMMA) {
                    loaded.loose.push(from.name.clone());
                    continue;
                }
                report.unused.push(format!("{} ({})", from.name, keys(from).join(", ")));
                continue;
            };
            match self.fitted(pretrained, from, to, options) {
                Ok(resize) => {
                    loaded.filled.push(to.name.clone());
                    loaded.resized = loaded.resized.or(resize);
                    pairs.push(Pair { from, to, resize });
                }
                Err(shapes) => report.shapes.push(shapes),
            }
        }
        let left = self.parameters().iter().map(|p| &p.name).filter(|name| ours.contains_key(name.as_str()));
        for name in left {
            let allowed = options.replace_head && is_head(name) || options.new_joins && is_of_strategy(name);
            if allowed { &mut loaded.drawn } else { &mut report.unfilled }.push(name.clone());
        }
        let fits = report.unfilled.is_empty() && report.unused.is_empty() && report.shapes.is_empty();
        if fits { Ok((pairs, loaded)) } else { Err(LoadError::Unfit(Box::new(report))) }
    }

    /// How a tensor becomes the parameter's value: as it is, or resized; else the shapes that do not fit.
    fn fitted(
        &self,
        pretrained: &Pretrained,
        from: &Mapped,
        to: &Parameter,
        options: &LoadOptions,
    ) -> Result<Option<Resized>, String> {
        let size = to.tensor.size();
        let file = pretrained.architecture();
        let grid = self.config().grid(self.input());
        if from.name == "position"
            && let Some((rows, columns)) = file.grid
            && from.shape.len() == 3
            && from.shape[2] == size[2]
            && from.shape[1] - file.positions as i64 == size[1] - grid[0] * grid[1]
        {
            let own = [rows as i64, columns as i64];
            let by = options.resize.unwrap_or(Resize::of(pretrained.layout(), file.registers > 0));
            return Ok((own != grid).then_some(Resized { by, from: own, to: grid }));
        }
        let unfit = || format!("{} is {:?} in the file and {size:?} in the network", from.name, from.shape);
        if from.shape == size { Ok(None) } else { Err(unfit()) }
    }

    /// Rotations have no parameters: a network without them would take the file's, and compute something else.
    fn check_rotation(&self, pretrained: &Pretrained) -> Result<(), LoadError> {
        let theirs = match pretrained.architecture().position {
            FilePosition::Rope { base } => Some(base),
            _ => None,
        };
        let problem = match (theirs, self.config().rope_base) {
            (None, None) => return Ok(()),
            // A base that is no number is one that the file does not tell.
            (Some(base), Some(ours)) if base == ours || base.is_nan() => return Ok(()),
            (Some(base), Some(ours)) => format!("has rope_base = {base}, and model.rope_base is {ours}"),
            (Some(_), None) => "has position = \"rope\", and model.position is another".to_owned(),
            (None, Some(_)) => "has no rotary position, and model.position is \"rope\"".to_owned(),
        };
        Err(LoadError::Other { path: pretrained.path().to_owned(), problem })
    }

    fn differences(&self, pretrained: &Pretrained) -> Vec<String> {
        let (file, config) = (pretrained.architecture(), self.config());
        let heads = file.num_heads.filter(|heads| *heads as i64 != config.num_heads);
        let eps = file.norm_eps.filter(|eps| *eps != config.norm_eps);
        let heads =
            heads.map(|theirs| format!("num_heads is {}; by the file or its layout {theirs}", config.num_heads));
        heads
            .into_iter()
            .chain(eps.map(|theirs| format!("norm_eps is {}; by the file or its layout {theirs}", config.norm_eps)))
            .collect()
    }
}

fn is_head(name: &str) -> bool {
    name.starts_with("head.")
}

/// Whether a strategy registered it.
fn is_of_strategy(name: &str) -> bool {
    name.contains(".join.") || name.contains(".inner.") || name.starts_with("stream.")
}

/// The keys of its parts, each once.
fn keys(mapped: &Mapped) -> Vec<String> {
    let mut keys: Vec<String> = mapped.parts.iter().map(|part| part.key.clone()).collect();
    keys.dedup();
    keys
}

impl Pair<'_> {
    fn copy(&self) -> Result<(), TchError> {
        let Some(Resized { by, from, to }) = self.resize else { return fill(&self.to.tensor, self.from) };
        let kind = if self.to.tensor.kind() == Kind::Double { Kind::Double } else { Kind::Float };
        let own = Tensor::f_zeros(&self.from.shape[..], (kind, Device::Cpu))?;
        fill(&own, self.from)?;
        self.to.tensor.shallow_clone().f_copy_(&by.apply(&own, from, to)).map(drop)
    }
}

/// A tensor of the file in single precision.
///
/// # Errors
/// When libtorch has no memory for it.
pub fn read_tensor(from: &Mapped) -> Result<Tensor, TchError> {
    let own = Tensor::f_zeros(&from.shape[..], (Kind::Float, Device::Cpu))?;
    fill(&own, from)?;
    Ok(own)
}

/// Writes a tensor of the file, part by part: one is in memory at a time.
fn fill(to: &Tensor, from: &Mapped) -> Result<(), TchError> {
    let flat = to.f_view(-1)?;
    let mut at = 0;
    for part in &from.parts {
        let count = part.numel() as i64;
        let values = Tensor::f_from_data_size(part.bytes(), &[count], kind(part.dtype))?;
        flat.f_narrow(0, at, count)?.f_copy_(&values)?;
        at += count;
    }
    Ok(())
}

fn kind(dtype: Dtype) -> Kind {
    match dtype {
        Dtype::F16 => Kind::Half,
        Dtype::Bf16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
    }
}
