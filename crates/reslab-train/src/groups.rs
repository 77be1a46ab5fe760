//! Which parameter is in which optimizer group.

use reslab_residual::{OptimScale, Strategy};
use reslab_torch::{Group, OptimGroup, OptimKind, Optimizer, Parameter};

use crate::TrainError;
use crate::config::OptimConfig;

/// The optimizer of a network: groups by decay, and by what the strategy asks for.
pub(crate) fn optimizer(
    config: &OptimConfig,
    strategy: &dyn Strategy,
    parameters: &[Parameter],
) -> Result<Optimizer, TrainError> {
    let kind = match *config {
        OptimConfig::AdamW { betas: [beta1, beta2], eps, .. } => OptimKind::AdamW { beta1, beta2, eps },
        OptimConfig::Sgd { momentum, .. } => OptimKind::Sgd { momentum },
    };
    let groups = groups(config.weight_decay(), strategy, parameters);
    covers(&groups, parameters)?;
    Ok(Optimizer::new(kind, groups))
}

fn groups(weight_decay: f64, strategy: &dyn Strategy, parameters: &[Parameter]) -> Vec<OptimGroup> {
    let mut groups: Vec<OptimGroup> = Vec::new();
    for parameter in parameters {
        let OptimScale { lr, weight_decay: decay_scale, eps } = strategy.optim_scale(parameter);
        let (name, decay) = match parameter.group {
            Group::Decay => ("decay", weight_decay * decay_scale),
            Group::NoDecay => ("no_decay", 0.0),
            Group::Gamma => ("gamma", 0.0),
        };
        let same =
            |g: &&mut OptimGroup| (g.name.as_str(), g.lr_scale, g.eps_scale, g.weight_decay) == (name, lr, eps, decay);
        let parameter = parameter.clone();
        match groups.iter_mut().find(same) {
            Some(group) => group.parameters.push(parameter),
            None => groups.push(OptimGroup {
                name: name.to_owned(),
                parameters: vec![parameter],
                lr_scale: lr,
                eps_scale: eps,
                weight_decay: decay,
            }),
        }
    }
    groups
}

/// Every trainable tensor is in exactly one group (big_vision's "all params must be covered").
fn covers(groups: &[OptimGroup], parameters: &[Parameter]) -> Result<(), TrainError> {
    let mut names: Vec<&str> = groups.iter().flat_map(|g| &g.parameters).map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    let mut wanted: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    wanted.sort_unstable();
    if names == wanted { Ok(()) } else { Err(TrainError::Groups { grouped: names.len(), parameters: wanted.len() }) }
}
