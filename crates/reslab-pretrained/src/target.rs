//! Which layout of a program holds a network, and what none of them can hold.

use crate::{Architecture, Kind, Layout, Mlp, NormPlacement, Pool, Position, PretrainedError, QkvBias};

/// A program that is to open the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// timm.
    Timm,
    /// transformers.
    Hf,
}

impl Target {
    /// The layout of this program that holds the network.
    ///
    /// # Errors
    /// Says what it has no place for.
    pub fn layout(self, network: &Architecture) -> Result<Layout, PretrainedError> {
        let rope = matches!(network.position, Position::Rope { .. });
        let layout = match self {
            Target::Timm if network.kind != Kind::Vit => Layout::Cait,
            Target::Timm if rope => Layout::TimmDinov3,
            Target::Timm if network.gamma => Layout::TimmLayerScale,
            Target::Timm => Layout::TimmVit,
            Target::Hf if rope => Layout::HfDinov3,
            Target::Hf if network.registers > 0 => Layout::HfDinov2WithRegisters,
            Target::Hf => Layout::HfDinov2,
        };
        check(layout, network)?;
        Ok(layout)
    }
}

/// A condition that must hold, and the reason where it doesn't.
type Rule<'a> = (bool, &'a str);

/// That a layout holds a network.
pub(crate) fn check(layout: Layout, network: &Architecture) -> Result<(), PretrainedError> {
    let own: Vec<Rule> = match layout {
        Layout::TimmVit | Layout::TimmLayerScale => timm_vit(network),
        Layout::TimmDinov3 => timm_dinov3(network),
        Layout::Cait => cait(network),
        Layout::HfDinov2 | Layout::HfDinov2WithRegisters => hf_dinov2(network),
        Layout::HfDinov3 => hf_dinov3(network),
        Layout::FbDinov2 | Layout::FbDinov3 | Layout::FbDeit3 | Layout::Reslab => {
            vec![(false, "it is read, but not written")]
        }
    };
    let common = [
        (network.norm == NormPlacement::Pre, "its norms do not stand before the branches"),
        (network.num_heads.is_some(), "its number of heads is not known"),
        (network.norm_eps.is_some(), "what is added in its norms (norm_eps) is not known"),
        (network.positions == 0 || network.grid.is_some(), "rows and columns of its positions are not known"),
    ];
    match common.into_iter().chain(own).find(|(holds, _)| !holds) {
        None => Ok(()),
        Some((_, reason)) => Err(PretrainedError::Refused { layout: layout.to_string(), reason: reason.to_owned() }),
    }
}

const CLASS_MEAN: &str = "no pool there puts class token and mean side by side";

fn timm_vit(network: &Architecture) -> Vec<Rule<'static>> {
    vec![
        (network.kind == Kind::Vit, "it is a CaiT"),
        (!matches!(network.position, Position::Rope { .. }), "rotary positions are in the layout `timm dinov3`"),
        (network.pre_norm != network.patch_bias, "there the patches' projection has a bias exactly without pre_norm"),
        (network.pool != Pool::ClassMean || network.classes.is_none(), CLASS_MEAN),
        (network.class_token || network.pool == Pool::Mean, "there is no class token to read"),
    ]
}

fn timm_dinov3(network: &Architecture) -> Vec<Rule<'static>> {
    vec![
        (network.kind == Kind::Vit, "it is a CaiT"),
        (matches!(network.position, Position::Rope { .. }), "its positions are not rotary"),
        (network.qkv_bias != QkvBias::Yes, "keys have no bias there: qkv_bias = \"no_key\" or false"),
        (!network.pre_norm && network.patch_bias, "pre_norm is not written with rotary positions"),
        (network.pool != Pool::ClassMean || network.classes.is_none(), CLASS_MEAN),
        (network.class_token, "there is no class token"),
    ]
}

fn cait(network: &Architecture) -> Vec<Rule<'static>> {
    vec![
        (network.kind != Kind::Vit, "it is no CaiT"),
        (network.mlp == Mlp::Gelu, "CaiT's MLP has no gate"),
        (network.registers == 0, "CaiT has no registers"),
        (network.position == Position::Patches, "CaiT's positions are learned, for the patches"),
        (network.qkv_bias != QkvBias::NoKey, "CaiT has biases of queries, keys and values, or none"),
        (network.pool == Pool::Class, "CaiT's head reads the class token"),
        (!network.pre_norm && network.patch_bias, "CaiT has no norm behind the embeddings"),
    ]
}

fn hf(network: &Architecture) -> Vec<Rule<'static>> {
    vec![
        (network.kind == Kind::Vit, "transformers has no CaiT"),
        (network.class_token, "there is no class token"),
        (!network.pre_norm && network.patch_bias, "there is no norm behind the embeddings there"),
    ]
}

fn hf_dinov2(network: &Architecture) -> Vec<Rule<'static>> {
    let mut rules = hf(network);
    rules.extend([
        (matches!(network.position, Position::All | Position::Patches), "its positions are not learned"),
        (
            network.pool != Pool::Mean || network.classes.is_none(),
            "the head there reads the class token and the mean of normed tokens, not the norm of their mean",
        ),
        (hf_mlp_ratio(network).is_some(), "mlp_ratio must be a whole number there that gives the hidden width"),
    ]);
    rules
}

fn hf_dinov3(network: &Architecture) -> Vec<Rule<'static>> {
    let mut rules = hf(network);
    rules.extend([
        (matches!(network.position, Position::Rope { .. }), "its positions are not rotary"),
        (
            network.classes.is_none(),
            "transformers has no classifier for DINOv3; without its head (--no-head) it can be written",
        ),
    ]);
    rules
}

/// What is written that the network does not have, and that leaves its function as it is.
pub fn remarks(layout: Layout, network: &Architecture) -> Vec<&'static str> {
    let hf = matches!(layout, Layout::HfDinov2 | Layout::HfDinov2WithRegisters | Layout::HfDinov3);
    let dinov2 = hf && layout != Layout::HfDinov3;
    let whole_bias =
        network.qkv_bias == QkvBias::NoKey && (dinov2 || matches!(layout, Layout::TimmVit | Layout::TimmLayerScale));
    let learned = network.position == Position::All && network.registers > 0;
    [
        (hf, "the mask token is zeros"),
        (!network.gamma && (hf || layout == Layout::Cait), "gamma, which the network lacks, is ones"),
        (whole_bias, "the key's bias is zeros"),
        (dinov2 && network.position == Position::Patches, "the class token's position is zeros"),
        (learned && !hf, "the registers' positions are zeros"),
        (dinov2 && network.classes.is_some() && network.pool == Pool::Class, "the head's half for the mean is zeros"),
    ]
    .into_iter()
    .filter_map(|(holds, remark)| holds.then_some(remark))
    .collect()
}

/// The whole `mlp_ratio` from which transformers computes this hidden width for DINOv2.
pub(crate) fn hf_mlp_ratio(network: &Architecture) -> Option<usize> {
    let hidden = |ratio: usize| match network.mlp {
        Mlp::Gelu => network.width * ratio,
        Mlp::SwiGlu => (network.width * ratio * 2 / 3).next_multiple_of(8),
    };
    (1..=64).find(|ratio| hidden(*ratio) == network.hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::tests::small;

    fn reason(target: Target, network: Architecture) -> String {
        target.layout(&network).unwrap_err().to_string()
    }

    #[test]
    fn a_network_goes_into_the_layout_of_its_kind() {
        let rope = Architecture { position: Position::Rope { base: 100.0 }, qkv_bias: QkvBias::NoKey, ..small() };
        let hidden = Architecture { hidden: 16, ..small() };
        let registers = Architecture { registers: 4, ..hidden.clone() };
        let plain = Architecture { gamma: false, ..small() };
        let cait = Architecture { kind: Kind::Cait { class_depth: 2 }, position: Position::Patches, ..small() };
        for (target, network, layout) in [
            (Target::Timm, small(), Layout::TimmLayerScale),
            (Target::Timm, plain, Layout::TimmVit),
            (Target::Timm, rope.clone(), Layout::TimmDinov3),
            (Target::Timm, cait, Layout::Cait),
            (Target::Hf, hidden, Layout::HfDinov2),
            (Target::Hf, registers, Layout::HfDinov2WithRegisters),
            (Target::Hf, rope, Layout::HfDinov3),
        ] {
            assert_eq!(target.layout(&network).unwrap(), layout);
        }
    }

    #[test]
    fn what_a_program_can_not_express_is_refused_with_the_reason() {
        let head = Architecture { classes: Some(10), hidden: 16, ..small() };
        let rope = Architecture { position: Position::Rope { base: 100.0 }, qkv_bias: QkvBias::NoKey, ..head.clone() };
        let cait = Architecture { kind: Kind::Cait { class_depth: 2 }, position: Position::Patches, ..small() };
        for (target, network, says) in [
            (Target::Timm, Architecture { norm: NormPlacement::Other, ..small() }, "its norms do not stand before"),
            (Target::Timm, Architecture { num_heads: None, ..small() }, "its number of heads is not known"),
            (Target::Timm, Architecture { norm_eps: None, ..small() }, "norm_eps"),
            (Target::Timm, Architecture { pool: Pool::ClassMean, ..head.clone() }, CLASS_MEAN),
            (Target::Timm, Architecture { pre_norm: true, ..small() }, "exactly without pre_norm"),
            (Target::Timm, Architecture { qkv_bias: QkvBias::Yes, ..rope.clone() }, "keys have no bias there"),
            (Target::Timm, Architecture { mlp: Mlp::SwiGlu, ..cait.clone() }, "CaiT's MLP has no gate"),
            (Target::Hf, cait, "transformers has no CaiT"),
            (Target::Hf, rope, "transformers has no classifier for DINOv3"),
            (Target::Hf, Architecture { pool: Pool::Mean, ..head.clone() }, "not the norm of their mean"),
            (Target::Hf, Architecture { hidden: 12, ..head.clone() }, "mlp_ratio must be a whole number"),
            (Target::Hf, Architecture { position: Position::None, ..head }, "its positions are not learned"),
        ] {
            let text = reason(target, network);
            assert!(text.starts_with("the layout `") && text.contains(says), "no {says:?} in {text}");
        }
    }
}
