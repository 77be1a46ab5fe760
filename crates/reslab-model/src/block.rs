//! One block: attention and MLP, each a branch with its norms and its join.
//!
//! Shapes: B batch, N tokens, D width, S width of the stream.

use std::fmt::Debug;

use reslab_residual::{Branch, BranchKind, Inner, Join, Norm, Pass, Site, Strategy, connect, connect_apart};
use reslab_torch::Scope;
use tch::Tensor;

use crate::attention::Attention;
use crate::layers::LayerNorm;
use crate::mlp::Mlp;
use crate::rope::Rope;
use crate::{ModelConfig, ModelError};

/// What the branches of a block share while they are built.
pub(crate) struct Plan<'a> {
    pub config: &'a ModelConfig,
    pub strategy: &'a dyn Strategy,
    pub norm: Norm,
    /// Width S of the stream.
    pub stream: i64,
    pub rope: Option<Rope>,
}

/// One block.
#[derive(Debug)]
pub(crate) struct Block {
    attention: Joined<Attention>,
    mlp: Joined<Mlp>,
}

impl Block {
    pub fn new(scope: &Scope, plan: &Plan, block: usize) -> Result<Block, ModelError> {
        let scope = scope.child(format!("{block:02}"));
        let site = |kind| plan.config.site(block, kind);
        Ok(Block {
            attention: Joined::new(&scope, plan, site(BranchKind::Attention), Attention::new)?,
            mlp: Joined::new(&scope, plan, site(BranchKind::Mlp), Mlp::new)?,
        })
    }

    /// residual: [B, N, S] -> [B, N, S]
    pub fn forward(&self, residual: &Tensor, pass: &mut Pass) -> Tensor {
        let residual = self.attention.forward(residual, pass);
        self.mlp.forward(&residual, pass)
    }
}

/// What a branch does behind its norm.
pub(crate) trait Body: Debug {
    /// h: [B, N, D] -> [B, N, D]
    fn forward(&self, h: &Tensor, pass: &mut Pass) -> Tensor;
}

/// A branch and its join.
#[derive(Debug)]
pub(crate) struct Joined<B> {
    pub branch: NormedBranch<B>,
    post_norm: Option<LayerNorm>, // on the sum
    join: Box<dyn Join>,
    site: Site,
}

impl<B> Joined<B> {
    /// `body` makes the branch itself, from the scope of the branch.
    pub fn new(
        scope: &Scope,
        plan: &Plan,
        site: Site,
        body: impl FnOnce(&Scope, &Plan, Site, Inner) -> Result<B, ModelError>,
    ) -> Result<Joined<B>, ModelError> {
        let scope = &scope.child(site.kind.name());
        let norm = |wanted: bool, name: &str, width: i64| {
            wanted.then(|| LayerNorm::new(&scope.child(name), width, plan.config.norm_eps)).transpose()
        };
        let pre_norm = norm(matches!(plan.norm, Norm::Pre | Norm::Both), "norm", site.width)?;
        let inner = plan.strategy.inner(&scope.child("inner"), site)?;
        let body = body(scope, plan, site, inner)?;
        let out_norm = norm(plan.norm == Norm::Both, "out_norm", site.width)?;
        Ok(Joined {
            branch: NormedBranch { pre_norm, body, out_norm },
            join: plan.strategy.join(&scope.child("join"), site)?,
            post_norm: norm(plan.norm == Norm::Post, "post_norm", plan.stream)?,
            site,
        })
    }

    /// Joins a branch where neither drop path nor telemetry looks. residual: [B, N, D] -> [B, N, D]
    pub fn forward_apart(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        self.normed(connect_apart(&*self.join, residual, branch, pass))
    }

    fn normed(&self, joined: Tensor) -> Tensor {
        match &self.post_norm {
            Some(norm) => norm.forward(&joined),
            None => joined,
        }
    }
}

impl<B: Body> Joined<B> {
    /// residual: [B, N, S] -> [B, N, S]
    fn forward(&self, residual: &Tensor, pass: &mut Pass) -> Tensor {
        self.normed(connect(&*self.join, self.site, residual, &self.branch, pass))
    }
}

/// A branch with the norms before and after it.
#[derive(Debug)]
pub(crate) struct NormedBranch<B> {
    pre_norm: Option<LayerNorm>,
    pub body: B,
    out_norm: Option<LayerNorm>,
}

impl<B> NormedBranch<B> {
    /// The norm before the branch. x: [B, N, D] -> [B, N, D]
    pub fn before(&self, x: &Tensor) -> Tensor {
        match &self.pre_norm {
            Some(norm) => norm.forward(x),
            None => x.shallow_clone(),
        }
    }

    /// The norm after it. output: [B, N, D] -> [B, N, D]
    pub fn after(&self, output: Tensor) -> Tensor {
        match &self.out_norm {
            Some(norm) => norm.forward(&output),
            None => output,
        }
    }
}

impl<B: Body> Branch for NormedBranch<B> {
    fn norm(&self, x: &Tensor) -> Tensor {
        self.before(x)
    }

    fn body(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        self.after(self.body.forward(h, pass))
    }
}
