//! Sandwich norm (Peri-LN): norms before and after each branch.

use reslab_config::{ConfigError, parse as parse_table};
use reslab_torch::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::plain::PlainJoin;
use crate::{Join, LayerNorm, NORM_EPS, Norm, Pass, Site, Strategy, StrategyError, Stream, Variant};

/// Sandwich norm: `y = x + LN(f(LN(x)))`. Both norms are the block's (placement `both`), so that without
/// `embedding_norm` it is `plain` under that placement; with it, an LN acts on the embedding before the first block.
///
/// Source: Ding et al. 2021 (CogView), arXiv:2105.13290, section 2.4; as Peri-LN, with the norm of the embedding as an
/// option, Kim et al. 2025, arXiv:2502.02732, section 3. Differs: LayerNorm, where the models that Kim et al. list
/// (OLMo 2, Gemma 2) have RMSNorm.
///
/// Shapes: x and y `[B, N, D]`. No parameters in the joins; the placement has 4 D more per block than `pre`, and the
/// norm of the embedding 2 D in all.
///
/// At step 0 every update has unit variance per token: the stream's mean square grows by 1 per join whatever the
/// weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sandwich {
    /// Whether a norm acts on the embedding too.
    pub embedding_norm: bool,
}

/// The strategy's entry in the registry.
pub const VARIANT: Variant = Variant {
    name: "sandwich",
    summary: "a norm before and one after each branch (sandwich norm, Peri-LN)",
    equation: "y = x + LN(f(LN(x)))",
    source: "Ding et al. 2021 (CogView), arXiv:2105.13290; Kim et al. 2025 (Peri-LN), arXiv:2502.02732, section 3",
    example: "kind = \"sandwich\"\nembedding_norm = false\n",
    parameters: "0",
    keys: reslab_config::keys::<Sandwich>,
    parse,
};

fn parse(table: &toml::Table) -> Result<Box<dyn Strategy>, ConfigError> {
    Ok(Box::new(parse_table::<Sandwich>("residual", table)?))
}

impl Strategy for Sandwich {
    fn norms(&self) -> &'static [Norm] {
        &[Norm::Both]
    }

    fn join(&self, _scope: &Scope, _site: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(PlainJoin))
    }

    fn stream(&self, scope: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        let norm = || LayerNorm::new(&scope.child("embedding_norm"), width, NORM_EPS);
        Ok(Box::new(NormedStream { norm: self.embedding_norm.then(norm).transpose()?, width }))
    }
}

/// One stream that begins with a norm, or without.
#[derive(Debug)]
struct NormedStream {
    norm: Option<LayerNorm>,
    width: i64,
}

impl Stream for NormedStream {
    fn width(&self) -> i64 {
        self.width
    }

    fn open(&self, x: &Tensor, _pass: &mut Pass) -> Tensor {
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x.shallow_clone(),
        }
    }

    fn close(&self, stream: &Tensor, _pass: &mut Pass) -> Tensor {
        stream.shallow_clone()
    }
}
