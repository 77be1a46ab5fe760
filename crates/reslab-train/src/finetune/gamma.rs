//! What becomes of learned scales when a network is taken over.

use std::collections::BTreeMap;

use reslab_torch::Parameter;
use reslab_torch::tch::Tensor;

use super::config::GammaRule;

/// Carries out `rule` on a network that holds the file's weights. `loose` are the file's gammas for which the network has no parameter, by
/// the name that it would have.
///
/// # Errors
/// The name of a gamma that can't be folded, since no projection stands before it.
pub(crate) fn apply(rule: GammaRule, parameters: &[Parameter], loose: &BTreeMap<String, Tensor>) -> Result<(), String> {
    let by_name: BTreeMap<&str, &Tensor> = parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
    let own = by_name.iter().filter(|(name, _)| name.ends_with(GAMMA)).map(|(name, gamma)| (*name, *gamma));
    let _no_grad = reslab_torch::tch::no_grad_guard();
    let fold = |name: &str, gamma: &Tensor, into: f64| -> Result<(), String> {
        let projection = projection(name).ok_or_else(|| name.to_owned())?;
        let weight = by_name.get(format!("{projection}.weight").as_str()).ok_or_else(|| name.to_owned())?;
        let scale = gamma / into;
        let _ = weight.shallow_clone().g_mul_(&scale.view([-1, 1]));
        if let Some(bias) = by_name.get(format!("{projection}.bias").as_str()) {
            let _ = bias.shallow_clone().g_mul_(&scale);
        }
        Ok(())
    };
    match rule {
        GammaRule::Keep | GammaRule::Freeze => {}
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

/// How the parameter of a learned scale per channel is called.
const GAMMA: &str = ".join.gamma";

fn fill(gamma: &Tensor, value: f64) {
    let _ = gamma.shallow_clone().fill_(value);
}

/// The projection whose output a gamma scales.
fn projection(gamma: &str) -> Option<String> {
    let branch = gamma.strip_suffix(GAMMA)?;
    let last = if branch.ends_with(".attention") { "out" } else { "fc2" };
    Some(format!("{branch}.{last}"))
}
