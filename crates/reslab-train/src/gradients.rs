//! Gradient norms of a step, by part of the network: computed on the device, split up on the host.

use reslab_torch::{Group, Parameter};

/// Part of the network that a parameter belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Attention,
    Mlp,
    Gamma,
    Embedding,
    Head,
}

impl Part {
    /// By group and dotted name; learned scales of branches stand apart from the branch that they scale.
    fn of(parameter: &Parameter) -> Self {
        if parameter.group == Group::Gamma {
            return Self::Gamma;
        }
        let mut names = parameter.name.split('.');
        match (names.next(), names.nth(1)) {
            (Some("blocks"), Some("attention")) => Self::Attention,
            (Some("blocks"), Some(_)) => Self::Mlp,
            (Some("norm" | "head"), _) => Self::Head,
            _ => Self::Embedding,
        }
    }
}

/// Sums the norms of single parameters into the norms of the parts.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<Part>);

impl Parts {
    pub(crate) fn of(parameters: &[Parameter]) -> Self {
        Self(parameters.iter().map(Part::of).collect())
    }

    /// The norm over one part, from the norms of all parameters; `None` where the network has no such part.
    pub(crate) fn norm(&self, part: Part, norms: &[f64]) -> Option<f64> {
        let mut of_part = self.0.iter().zip(norms).filter(|(p, _)| **p == part).map(|(_, norm)| norm * norm).peekable();
        of_part.peek()?;
        Some(of_part.sum::<f64>().sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reslab_torch::tch::{Kind, Tensor};

    #[test]
    fn each_parameter_counts_in_its_part_alone() {
        let named = |name: &str, group| Parameter {
            name: name.to_owned(),
            group,
            tensor: Tensor::zeros([1], (Kind::Float, reslab_torch::tch::Device::Cpu)),
        };
        let parts = Parts::of(&[
            named("blocks.07.attention.qkv.weight", Group::Decay),
            named("blocks.07.attention.out.weight", Group::Decay),
            named("blocks.07.mlp.join.w1", Group::Decay),
            named("patch_embed.weight", Group::Decay),
            named("norm.weight", Group::NoDecay),
            named("position", Group::NoDecay),
        ]);
        let norms = [3.0, 4.0, 1.0, 6.0, 2.0, 8.0];
        assert_eq!(parts.norm(Part::Attention, &norms), Some(5.0));
        assert_eq!(parts.norm(Part::Mlp, &norms), Some(1.0));
        assert_eq!(parts.norm(Part::Embedding, &norms), Some(10.0));
        assert_eq!(parts.norm(Part::Head, &norms), Some(2.0));
        assert_eq!(parts.norm(Part::Gamma, &norms), None, "no learned scale: not defined, not 0");
        let gamma = Parts::of(&[named("blocks.07.attention.join.gamma", Group::Gamma)]);
        assert_eq!((gamma.norm(Part::Gamma, &[2.0]), gamma.norm(Part::Attention, &[2.0])), (Some(2.0), None));
    }
}
