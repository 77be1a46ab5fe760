//! One block: attention and MLP, each a branch with its norms and its join.
//!
//! Shapes: B batch, N tokens, D width, S width of the stream.

use reslab_residual::{Branch, BranchKind, Join, Norm, Pass, Site, Strategy, connect};
use reslab_torch::Scope;
use tch::Tensor;

use crate::attention::Attention;
use crate::layers::LayerNorm;
use crate::mlp::Mlp;
use crate::{ModelConfig, ModelError};

/// What the branches of a block share while they are built.
pub(crate) struct Plan<'a> {
    pub config: &'a ModelConfig,
    pub strategy: &'a dyn Strategy,
    pub norm: Norm,
    /// Width S of the stream.
    pub stream: i64,
}

/// One block.
#[derive(Debug)]
pub(crate) struct Block {
    attention: Joined,
    mlp: Joined,
}

impl Block {
    pub fn new(scope: &Scope, plan: &Plan, block: usize) -> Result<Block, ModelError> {
        let scope = scope.child(format!("{block:02}"));
        let joined = |kind: BranchKind| Joined::new(&scope.child(kind.name()), plan, plan.config.site(block, kind));
        Ok(Block { attention: joined(BranchKind::Attention)?, mlp: joined(BranchKind::Mlp)? })
    }

    /// residual: [B, N, S] -> [B, N, S]
    pub fn forward(&self, residual: &Tensor, pass: &mut Pass) -> Tensor {
        let residual = self.attention.forward(residual, pass);
        self.mlp.forward(&residual, pass)
    }
}

/// A branch and its join.
#[derive(Debug)]
struct Joined {
    branch: NormedBranch,
    post_norm: Option<LayerNorm>, // on the sum
    join: Box<dyn Join>,
    site: Site,
}

impl Joined {
    fn new(scope: &Scope, plan: &Plan, site: Site) -> Result<Joined, ModelError> {
        let (config, strategy) = (plan.config, plan.strategy);
        let norm = |wanted: bool, name: &str, width: i64| {
            wanted.then(|| LayerNorm::new(&scope.child(name), width, config.norm_eps)).transpose()
        };
        let pre_norm = norm(matches!(plan.norm, Norm::Pre | Norm::Both), "norm", site.width)?;
        let inner = strategy.inner(&scope.child("inner"), site)?;
        let body = match site.kind {
            BranchKind::Attention => Body::Attention(Attention::new(scope, config, strategy, site, inner)?),
            BranchKind::Mlp => Body::Mlp(Mlp::new(scope, config, strategy, site, inner)?),
        };
        let out_norm = norm(plan.norm == Norm::Both, "out_norm", site.width)?;
        Ok(Joined {
            branch: NormedBranch { pre_norm, body, out_norm },
            join: strategy.join(&scope.child("join"), site)?,
            post_norm: norm(plan.norm == Norm::Post, "post_norm", plan.stream)?,
            site,
        })
    }

    /// residual: [B, N, S] -> [B, N, S]
    fn forward(&self, residual: &Tensor, pass: &mut Pass) -> Tensor {
        let joined = connect(&*self.join, self.site, residual, &self.branch, pass);
        match &self.post_norm {
            Some(norm) => norm.forward(&joined),
            None => joined,
        }
    }
}

/// A branch with the norms before and after it.
#[derive(Debug)]
struct NormedBranch {
    pre_norm: Option<LayerNorm>,
    body: Body,
    out_norm: Option<LayerNorm>,
}

#[derive(Debug)]
enum Body {
    Attention(Attention),
    Mlp(Mlp),
}

impl Branch for NormedBranch {
    fn norm(&self, x: &Tensor) -> Tensor {
        match &self.pre_norm {
            Some(norm) => norm.forward(x),
            None => x.shallow_clone(),
        }
    }

    fn body(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let output = match &self.body {
            Body::Attention(attention) => attention.forward(h, pass),
            Body::Mlp(mlp) => mlp.forward(h, pass),
        };
        match &self.out_norm {
            Some(norm) => norm.forward(&output),
            None => output,
        }
    }
}
