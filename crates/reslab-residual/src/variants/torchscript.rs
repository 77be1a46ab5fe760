//! TorchScript: a join written in PyTorch, one copy of the module per site.

use std::fmt::Display;
use std::sync::Arc;

use reslab_config::{ConfigError, parse as parse_table, require};
use reslab_torch::{Group, Scope, Script};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tch::{Device, Tensor, no_grad};

use crate::{Branch, Gamma, Join, Mode, Norm, OneStream, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// The name of the parameter that is the join's gamma.
const GAMMA: &str = "gamma";

/// The path of the module that comes with reslab, and its file (`make_gate.py scale`).
const BUILT_IN: (&str, &[u8]) = ("built-in", include_bytes!("../../modules/scale.pt"));

/// TorchScript: `y = x + m(x, f(x))` with a module from PyTorch, `forward(residual, branch_output) -> update`.
///
/// Source: your own; experiments/torchscript-gate writes some. Loading a module runs its code: use files that you trust.
///
/// Shapes: x, f(x) and the update `[B, N, D]`, of one type. Each site has a copy of the module, whose parameters (float32)
/// begin with the file's values, for every seed the same, and are trained, saved and counted like ours; matrices decay. One
/// named `gamma`, of one value or `[D]`, is the join's gamma in telemetry. Refused before any training, by a try on small
/// tensors on the CPU: buffers and other tensors that are no parameters (no checkpoint would hold them), parameters that do
/// not train, a module that is random or keeps a state, an update of another shape, type or device or without the branch.
/// It is interpreted as written, without TorchScript's fused kernels. The plan notes the file's checksum: another content
/// is another run.
///
/// At step 0 the update is what the module makes of its first values. Drop path scales the update as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TorchScript {
    /// The file, from `torch.jit.save`, seen from the folder in which reslab is started. Loading it runs its code: name only
    /// files that you trust. `built-in` is a module of one scale per join that comes with reslab.
    pub path: String,
    /// The file's SHA-256, which the plan writes: another content is refused.
    #[schemars(skip)]
    #[serde(default)]
    pub sha256: Option<String>,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "torchscript",
    summary: "a join from PyTorch: a TorchScript module gives the update (loading one runs its code)",
    equation: "y = x + m(x, f(x)), m a module forward(residual, branch_output) -> update",
    source: "your own module; experiments/torchscript-gate shows how one is made",
    example: "kind = \"torchscript\"\npath = \"built-in\"\n",
    parameters: "2",
    keys: reslab_config::keys::<TorchScript>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    let config: TorchScript = parse_table("residual", table)?;
    let refuse = |problem: String| ConfigError::new("residual.path", format!("{}: {problem}", config.path));
    let bytes = match config.path.as_str() {
        path if path == BUILT_IN.0 => BUILT_IN.1.to_vec(),
        path => read(path).map_err(|error| refuse(format!("cannot be read: {error}")))?,
    };
    let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let planned = config.sha256.as_ref().unwrap_or(&sha256);
    require(*planned == sha256, "residual.sha256", || {
        format!("{} was {planned} when the run was planned, and now is {sha256}; plan it again", config.path)
    })?;
    Script::load(&bytes, Device::Cpu)
        .and_then(|script| script.check_tensors())
        .map_err(|error| refuse(format!("can't be used as a module: {error}")))?;
    Ok(Box::new(TorchScriptModule { path: config.path, sha256, bytes: bytes.into() }))
}

/// The content of a file, and of nothing that may never end.
fn read(path: &str) -> std::io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    std::fs::read(path)
}

/// The strategy: the file's bytes, read once.
#[derive(Debug, Clone)]
struct TorchScriptModule {
    path: String,
    sha256: String,
    bytes: Arc<[u8]>,
}

impl TorchScriptModule {
    /// A copy of the module with its parameters.
    fn script(&self, device: Device) -> Result<(Script, Vec<(String, Tensor)>), StrategyError> {
        let script = Script::load(&self.bytes, device).map_err(|error| self.refuse(error))?;
        let parameters = script.parameters().map_err(|error| self.refuse(error))?;
        Ok((script, parameters))
    }

    fn refuse(&self, error: impl Display) -> StrategyError {
        StrategyError::Other(format!("{}: {error}", self.path))
    }
}

impl Strategy for TorchScriptModule {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Pre, Norm::Post, Norm::Both, Norm::None]
    }

    fn stream(&self, _scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        // Once per network, and before it has any memory.
        let (script, parameters) = self.script(Device::Cpu)?;
        script.check_calls(width).map_err(|error| self.refuse(error))?;
        match parameters.iter().find(|(name, _)| name == GAMMA).map(|(_, gamma)| gamma.size()) {
            Some(size) if size.iter().product::<i64>() != 1 && size != [width] => {
                Err(self.refuse(format!("its gamma is {size:?}, but must be one value or [{width}]")))
            }
            _ => Ok(Box::new(OneStream { width })),
        }
    }

    fn join(&self, scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        let (script, parameters) = self.script(scope.device())?;
        let mut gamma = None;
        for (name, tensor) in parameters {
            let group = match tensor.dim() {
                _ if name == GAMMA => Group::Gamma,
                0 | 1 => Group::NoDecay,
                _ => Group::Decay,
            };
            scope.adopt(&name, &tensor, group)?;
            if name == GAMMA {
                gamma = Some((tensor.shallow_clone(), start(&tensor)));
            }
        }
        Ok(Box::new(TorchScriptJoin { script, gamma }))
    }

    fn pins(&self) -> toml::Table {
        toml::Table::from_iter([("sha256".to_owned(), self.sha256.clone().into())])
    }
}

/// The value that all of gamma has; 0 where they differ.
fn start(gamma: &Tensor) -> f64 {
    let [low, high] = no_grad(|| [gamma.min(), gamma.max()].map(|end| end.double_value(&[])));
    if low == high { low } else { 0.0 }
}

/// The join of [`TorchScript`].
#[derive(Debug)]
struct TorchScriptJoin {
    script: Script,
    gamma: Option<(Tensor, f64)>,
}

impl Join for TorchScriptJoin {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let output = branch.call(residual, pass);
        let update = self.script.call(residual, &output, pass.mode() == Mode::Train);
        update.unwrap_or_else(|error| panic!("the TorchScript module failed: {error}"))
    }

    fn gamma(&self) -> Option<Gamma> {
        self.gamma.as_ref().map(|(value, init)| Gamma { value: value.shallow_clone(), init: *init })
    }
}
