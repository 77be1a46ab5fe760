//! Combinations that are not defined, refused when the config is parsed.

use reslab_config::{ConfigError, require};
use reslab_torch::Scope;

use crate::{BranchKind, DropMode, DropPathConfig, DropRule, Norm, Site, Strategy};

/// Refuses a norm placement that a strategy is not defined for.
///
/// # Errors
/// At `model.norm`, with the placements that it is defined for.
pub fn require_norm(strategy: &dyn Strategy, norm: Norm) -> Result<(), ConfigError> {
    let norms = strategy.norms();
    require(norms.contains(&norm), "model.norm", || {
        let known: Vec<_> = norms.iter().map(|n| format!("\"{}\"", n.name())).collect();
        format!("this strategy is not defined for \"{}\", only for {}", norm.name(), known.join(", "))
    })
}

/// Refuses a combination of strategy, drop path and norm placement that is not defined, with the reason.
///
/// # Errors
/// Names the key that has to change: `model.norm`, `drop_path.rate` or `drop_path.mode`.
pub fn check_compatible(strategy: &dyn Strategy, drop_path: &DropPathConfig, norm: Norm) -> Result<(), ConfigError> {
    require_norm(strategy, norm)?;
    if drop_path.rate == 0.0 {
        return Ok(());
    }
    require(norm != Norm::Post, "drop_path.rate", || {
        "must be 0 with norm = \"post\": the norm acts on the sum, so a sample whose branch is dropped would still be \
         changed, and scaling by 1/keep_prob does not keep the mean"
            .to_owned()
    })?;
    require(!(strategy.uses_memory() && drop_path.mode == DropMode::Subset), "drop_path.mode", || {
        "must not be \"subset\" with this strategy: it reads tensors of the whole batch that earlier joins left, and a \
         subset has other samples at every join"
            .to_owned()
    })?;
    // The joins themselves know how drop path acts on them; a counting scope builds one without memory.
    let site = Site { block: 0, depth: 1, kind: BranchKind::Attention, width: 1, num_heads: 1, hidden: 1 };
    let join = strategy.join(&Scope::counting(), site).map_err(|e| ConfigError::new("residual.kind", e.to_string()))?;
    match join.drop_rule() {
        DropRule::Refused(reason) => {
            Err(ConfigError::new("drop_path.rate", format!("must be 0 with this strategy: {reason}")))
        }
        DropRule::Scaled | DropRule::Branch => Ok(()),
    }
}
