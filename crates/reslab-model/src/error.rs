//! Why a network could not be built.

use reslab_config::ConfigError;
use reslab_residual::StrategyError;
use reslab_torch::ScopeError;

/// Why a network could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The table `[model]` does not fit the input or the strategy.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A parameter could not be registered.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The strategy could not build or calibrate its parts.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
}
