//! What becomes of learned scales when a network is taken over.

use std::collections::BTreeMap;

use reslab_model::read_tensor;
use reslab_pretrained::{GAMMA, Pretrained, layer_before};
use reslab_torch::Parameter;
use reslab_torch::tch::{TchError, Tensor, no_grad_guard};

use super::config::GammaRule;

/// Gammas by name: `blocks.07.mlp.join.gamma`.
pub(crate) type Gammas = BTreeMap<String, Tensor>;

/// The file's gammas of these names.
///
/// # Errors
/// When memory is short.
pub(crate) fn loose(file: &Pretrained, names: &[String]) -> Result<Gammas, TchError> {
    let wanted = file.mapped().iter().filter(|mapped| names.contains(&mapped.name));
    wanted.map(|mapped| Ok((mapped.name.clone(), read_tensor(mapped)?))).collect()
}

/// Sets the gammas that the file lacks to 1, with which the network computes what the file's does, and gives what they were.
pub(crate) fn neutral(parameters: &[Parameter], drawn: &[String]) -> Gammas {
    let new = parameters.iter().filter(|p| p.name.ends_with(GAMMA) && drawn.contains(&p.name));
    let taken = |p: &Parameter| {
        let value = p.tensor.detach().copy();
        let _no_grad = no_grad_guard();
        fill(&p.tensor, 1.0);
        (p.name.clone(), value)
    };
    new.map(taken).collect()
}

/// Carries out `rule` on a network that computes what the file's does. `loose` are the file's gammas for which the network has no
/// parameter; `drawn` is what the network's gammas that the file lacks were drawn as, and are again where the rule does not set them.
///
/// # Errors
/// The name of a gamma that can't be folded, since no projection stands before it.
pub(crate) fn apply(rule: GammaRule, parameters: &[Parameter], loose: &Gammas, drawn: Gammas) -> Result<(), String> {
    let by_name: BTreeMap<&str, &Tensor> = parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
    let own = by_name.iter().filter(|(name, _)| name.ends_with(GAMMA)).map(|(name, gamma)| (*name, *gamma));
    let _no_grad = no_grad_guard();
    let fold = |name: &str, gamma: &Tensor, into: f64| -> Result<(), String> {
        let projection = layer_before(name).ok_or_else(|| name.to_owned())?;
        let weight = by_name.get(format!("{projection}.weight").as_str()).ok_or_else(|| name.to_owned())?;
        let scale = gamma / into;
        let _ = weight.shallow_clone().g_mul_(&scale.view([-1, 1]));
        if let Some(bias) = by_name.get(format!("{projection}.bias").as_str()) {
            let _ = bias.shallow_clone().g_mul_(&scale);
        }
        Ok(())
    };
    match rule {
        GammaRule::Keep | GammaRule::Freeze => {
            for (name, value) in &drawn {
                by_name[name.as_str()].shallow_clone().copy_(value);
            }
        }
        GammaRule::Reset(value) => own.for_each(|(_, gamma)| fill(gamma, value)),
        GammaRule::Fold | GammaRule::FoldReset(_) => {
            let value = if let GammaRule::FoldReset(value) = rule { value } else { 1.0 };
            for (name, gamma) in own {
                fold(name, gamma, value)?;
                fill(gamma, value);
            }
            for (name, gamma) in loose {
                fold(name, gamma, 1.0)?;
            }
        }
    }
    Ok(())
}

fn fill(gamma: &Tensor, value: f64) {
    let _ = gamma.shallow_clone().fill_(value);
}
