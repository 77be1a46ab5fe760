//! CaiT's second stage: a class token that enters behind the blocks and reads the patches, which stay as they are.
//!
//! Shapes: B batch, N patches, D width, H heads.

use reslab_residual::{Branch, BranchKind, Inner, LINEAR_STD, Pass, Site, Stream, Weight};
use reslab_torch::{Group, Init, Scope};
use tch::{Kind, Tensor};

use crate::attention::refuse_head_maps;
use crate::block::{Joined, NormedBranch, Plan};
use crate::layers::Linear;
use crate::mlp::Mlp;
use crate::{ModelError, QkvBias};

/// The class token and its blocks. Source: Touvron et al. 2021 (CaiT), arXiv:2103.17239, section 3.
///
/// Its joins are the strategy's, for the class token alone. Neither drop path nor telemetry acts in them, as in CaiT and
/// since `layers.csv` has two rows for each of the other blocks.
#[derive(Debug)]
pub(crate) struct ClassStage {
    token: Tensor, // [1, 1, D]
    blocks: Vec<ClassBlock>,
}

#[derive(Debug)]
struct ClassBlock {
    attention: Joined<ClassAttention>,
    mlp: Joined<Mlp>,
}

impl ClassStage {
    /// Its blocks are numbered from 0, their sites from the other blocks on.
    pub fn new(scope: &Scope, plan: &Plan, class_depth: usize) -> Result<ClassStage, ModelError> {
        // timm draws it like the positions, not like a ViT's.
        let init = Init::TruncNormal { std: LINEAR_STD, gain: 1.0 };
        let token = scope.parameter("class_token", &[1, 1, plan.config.width], init, Group::NoDecay)?;
        let block = |block: usize| -> Result<ClassBlock, ModelError> {
            let scope = scope.child(format!("class_blocks.{block:02}"));
            let site = |kind| plan.config.site(plan.config.depth + block, kind);
            Ok(ClassBlock {
                attention: Joined::new(&scope, plan, site(BranchKind::Attention), ClassAttention::new)?,
                mlp: Joined::new(&scope, plan, site(BranchKind::Mlp), Mlp::new)?,
            })
        };
        Ok(ClassStage { token, blocks: (0..class_depth).map(block).collect::<Result<_, _>>()? })
    }

    /// patches: [B, N, D] -> class token and patches, [B, 1 + N, D]
    pub fn forward(&self, patches: &Tensor, stream: &dyn Stream, pass: &mut Pass) -> Tensor {
        let batch = patches.size()[0];
        let mut class = stream.open(&self.token.expand([batch, -1, -1], false), pass); // [B, 1, D]
        for block in &self.blocks {
            let reading = Reading { branch: &block.attention.branch, patches };
            class = block.attention.forward_apart(&class, &reading, pass);
            class = block.mlp.forward_apart(&class, &block.mlp.branch, pass);
        }
        Tensor::cat(&[&class, patches], 1)
    }
}

/// The attention branch of a class token with the patches at hand, which go through the same norm.
struct Reading<'a> {
    branch: &'a NormedBranch<ClassAttention>,
    patches: &'a Tensor,
}

impl Branch for Reading<'_> {
    fn norm(&self, x: &Tensor) -> Tensor {
        self.branch.before(x)
    }

    fn body(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let read = Tensor::cat(&[h, &self.branch.before(self.patches)], 1); // [B, 1 + N, D]
        self.branch.after(self.branch.body.forward(h, &read, pass))
    }
}

/// Attention of one token over itself and the patches.
#[derive(Debug)]
struct ClassAttention {
    query: Linear, // D -> D
    key: Linear,   // D -> D
    value: Linear, // D -> D
    out: Linear,   // D -> D
    inner: Inner,
    num_heads: i64,
}

impl ClassAttention {
    fn new(scope: &Scope, plan: &Plan, site: Site, inner: Inner) -> Result<ClassAttention, ModelError> {
        refuse_head_maps(&inner)?;
        let config = plan.config;
        let linear = |name: &str, weight: Weight, bias: bool| {
            let init = Init::TruncNormal { std: LINEAR_STD, gain: plan.strategy.init_gain(weight) };
            let shape = [config.width, config.width];
            Linear::with(&scope.child(name), &shape, init, bias.then_some(Init::Constant(0.0)))
        };
        let biased = config.qkv_bias != QkvBias::None;
        Ok(ClassAttention {
            query: linear("query", Weight::Query(site), biased)?,
            key: linear("key", Weight::Key(site), config.qkv_bias == QkvBias::All)?,
            value: linear("value", Weight::Value(site), biased)?,
            out: linear("out", Weight::Out(site), true)?,
            inner,
            num_heads: config.num_heads,
        })
    }

    /// class: [B, 1, D], read: [B, 1 + N, D] -> [B, 1, D]
    fn forward(&self, class: &Tensor, read: &Tensor, pass: &mut Pass) -> Tensor {
        let heads = |x: Tensor| x.unflatten(-1, [self.num_heads, -1]).transpose(1, 2); // [B, H, 1 + N, D/H]
        let q = heads(self.query.forward(class));
        let [k, v] = [&self.key, &self.value].map(|linear| heads(linear.forward(read)));
        let scale = 1.0 / (q.size()[3] as f64).sqrt();
        let weights = (q * scale).matmul(&k.transpose(-2, -1)).softmax(-1, None::<Kind>);
        let mut attended = weights.matmul(&v).transpose(1, 2).flatten(2, 3); // [B, 1, D]
        if let Some(map) = &self.inner.attended {
            attended = map.map(&attended, class, pass);
        }
        self.out.forward(&attended)
    }
}
