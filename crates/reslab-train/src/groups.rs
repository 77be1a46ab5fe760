//! Which parameter is in which optimizer group.

use reslab_residual::OptimScale;
use reslab_torch::{Group, OptimGroup, OptimKind, Optimizer, Parameter};

use crate::config::OptimConfig;
use crate::finetune::{Depths, lr_factor};
use crate::{RunConfig, TrainError};

/// The optimizer of the trained parameters of a network: groups by decay, by what the strategy asks for, and by layer
/// where the rate decays.
pub(crate) fn optimizer(config: &RunConfig, parameters: &[Parameter]) -> Result<Optimizer, TrainError> {
    let kind = match config.optim {
        OptimConfig::AdamW { betas: [beta1, beta2], eps, .. } => OptimKind::AdamW { beta1, beta2, eps },
        OptimConfig::Sgd { momentum, .. } => OptimKind::Sgd { momentum },
    };
    let (strategy, model) = (config.strategy.as_ref(), &config.model);
    let decay = config.finetune.as_ref().map_or(1.0, |finetune| finetune.layer_decay);
    let depths = Depths { blocks: model.depth, class_blocks: model.class_depth.unwrap_or(0) };
    let scale = |parameter: &Parameter| {
        let mut scale = strategy.optim_scale(parameter, model.blocks());
        scale.lr *= lr_factor(decay, depths, &parameter.name);
        scale
    };
    let groups = groups(config.optim.weight_decay(), scale, parameters);
    covers(&groups, parameters)?;
    Ok(Optimizer::new(kind, groups))
}

fn groups(weight_decay: f64, scale: impl Fn(&Parameter) -> OptimScale, parameters: &[Parameter]) -> Vec<OptimGroup> {
    let mut groups: Vec<OptimGroup> = Vec::new();
    for parameter in parameters {
        let OptimScale { lr, weight_decay: decay_scale, eps } = scale(parameter);
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

#[cfg(test)]
mod tests {
    use super::*;
    use reslab_model::{InputShape, ModelConfig, Vit};
    use reslab_residual::{Join, Registry, Site, Strategy, StrategyError};
    use reslab_torch::Scope;

    /// Of the networks here.
    const DEPTH: usize = 2;

    fn parameters(strategy: &dyn Strategy) -> Vec<Parameter> {
        let table = "kind = 'vit'\ndepth = 2\nwidth = 8\nnum_heads = 2\npatch_size = 4\nmlp_ratio = 2.0\nqkv_bias = true\n\
                     pool = 'class'\nnorm_eps = 1e-6\nnorm = 'strategy'";
        let config = ModelConfig::parse(&table.parse().unwrap()).unwrap();
        let scope = Scope::counting();
        Vit::new(&scope, &config, strategy, InputShape { channels: 1, height: 8, width: 8, classes: 4 }).unwrap();
        scope.parameters()
    }

    #[test]
    fn nothing_decays_but_matrices_and_every_parameter_is_in_one_group() {
        let registry = Registry::builtin();
        for variant in registry.iter() {
            let strategy = registry.parse(&variant.example.parse().unwrap()).unwrap();
            let parameters = parameters(&*strategy);
            let groups = groups(0.05, |p| strategy.optim_scale(p, DEPTH), &parameters);
            covers(&groups, &parameters).unwrap();
            for (group, parameter) in groups.iter().flat_map(|g| g.parameters.iter().map(move |p| (g, p))) {
                let token = ["position", "class_token"].contains(&parameter.name.as_str());
                let decays = parameter.tensor.dim() > 1 && !token && parameter.group == Group::Decay;
                let asked = strategy.optim_scale(parameter, DEPTH);
                let (decay, name) = (if decays { 0.05 * asked.weight_decay } else { 0.0 }, &parameter.name);
                assert_eq!(group.weight_decay, decay, "{}: {name} in {}", variant.name, group.name);
                assert_eq!((group.lr_scale, group.eps_scale), (asked.lr, asked.eps), "{}: {name}", variant.name);
            }
        }
    }

    #[test]
    fn a_parameter_that_is_left_out_or_grouped_twice_is_noticed() {
        let registry = Registry::builtin();
        let variant = registry.iter().next().unwrap();
        let strategy = registry.parse(&variant.example.parse().unwrap()).unwrap();
        let parameters = parameters(&*strategy);
        let mut groups = groups(0.05, |p| strategy.optim_scale(p, DEPTH), &parameters);
        let last = groups[0].parameters.pop().unwrap();
        assert!(matches!(covers(&groups, &parameters), Err(TrainError::Groups { .. })));
        groups[1].parameters.extend([last.clone(), last]);
        assert!(matches!(covers(&groups, &parameters), Err(TrainError::Groups { .. })));
    }

    /// Scales the head's matrix, and asks for decay where there is none.
    #[derive(Debug, Clone)]
    struct Scaling;
    impl Strategy for Scaling {
        fn join(&self, _: &Scope, _: Site) -> Result<Box<dyn Join>, StrategyError> {
            unreachable!("only parameters are grouped here")
        }
        fn optim_scale(&self, parameter: &Parameter, depth: usize) -> OptimScale {
            match parameter.name.as_str() {
                "head.weight" | "head.bias" => OptimScale { lr: 1.0 / depth as f64, weight_decay: 2.0, eps: 4.0 },
                _ => OptimScale::ONE,
            }
        }
    }

    #[test]
    fn a_strategys_factors_make_groups_of_their_own() {
        let registry = Registry::builtin();
        let variant = registry.iter().next().unwrap();
        let parameters = parameters(&*registry.parse(&variant.example.parse().unwrap()).unwrap());
        let groups = groups(0.05, |p| Scaling.optim_scale(p, DEPTH), &parameters);
        let of = |name: &str| groups.iter().find(|g| g.parameters.iter().any(|p| p.name == name)).unwrap();
        let figures = |name| (of(name).lr_scale, of(name).weight_decay, of(name).eps_scale);
        assert_eq!(figures("head.weight"), (0.5, 0.1, 4.0));
        assert_eq!(figures("head.bias"), (0.5, 0.0, 4.0));
        assert_eq!(figures("blocks.01.mlp.fc1.weight"), (1.0, 0.05, 1.0));
    }
}
