//! One join carried out: drop path's decision, the strategy's join, telemetry.
//!
//! Shapes: B batch, N tokens, D width, S width of the stream, s kept samples.

use tch::Tensor;

use crate::drop_path::Dropped;
use crate::telemetry::Seen;
use crate::{Branch, DropRule, Join, Pass, Site};

/// Carries out one join: residual `[B, N, S]` -> what the block continues with, `[B, N, S]`.
///
/// The block calls this, not the join: it applies drop path by the join's [`DropRule`] and takes telemetry. Without
/// drop path it is `join.forward` and nothing else.
pub fn connect(join: &dyn Join, site: Site, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
    let dropped = pass.dropped(site);
    pass.begin(residual);
    if matches!(dropped, Dropped::Nothing) {
        let joined = join.forward(residual, &Watched { branch }, pass);
        observe(join, site, Seen::whole(residual).joined(&joined), pass);
        return joined;
    }
    match join.drop_rule() {
        DropRule::Scaled => scaled(join, site, residual, (branch, dropped), pass),
        DropRule::Branch => {
            let joined = join.forward(residual, &Dropping { branch, dropped: &dropped }, pass);
            observe(join, site, Seen::dropped(residual, &dropped).joined(&joined), pass);
            joined
        }
        DropRule::Refused(reason) => panic!("drop path got past the check of the config: {reason}"),
    }
}

/// Carries out a join outside the blocks, which drop path leaves alone and of which telemetry has no row.
pub fn connect_apart(join: &dyn Join, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
    join.forward(residual, branch, pass)
}

/// The update is dropped and scaled: [`DropRule::Scaled`].
fn scaled(
    join: &dyn Join,
    site: Site,
    residual: &Tensor,
    (branch, dropped): (&dyn Branch, Dropped),
    pass: &mut Pass,
) -> Tensor {
    let branch = Watched { branch };
    let part = match &dropped {
        Dropped::All => {
            observe(join, site, Seen::nothing(residual), pass);
            return residual.shallow_clone();
        }
        Dropped::Subset { indices, .. } => residual.index_select(0, indices), // [s, N, S]
        _ => residual.shallow_clone(),
    };
    let update = join.update(&part, &branch, pass);
    pass.record_update(|| update.shallow_clone());
    match dropped {
        Dropped::Sample { mask, keep_prob, kept } => {
            observe(join, site, Seen::masked(residual, mask.shallow_clone(), kept), pass);
            // The mask stays 0 or 1; the division is of [B, 1, 1], so that the join is one kernel.
            residual.addcmul(&update, &(mask.to_kind(residual.kind()) / keep_prob))
        }
        Dropped::Subset { indices, scale, .. } => {
            observe(join, site, Seen::whole(&part), pass);
            // Autocast gives updates of lower precision; index_add wants the stream's.
            residual.index_add(0, &indices, &(update.to_kind(residual.kind()) * scale))
        }
        Dropped::Kept { keep_prob } => {
            observe(join, site, Seen::whole(residual), pass);
            residual + update / keep_prob
        }
        Dropped::Nothing | Dropped::All => unreachable!("both were dealt with above"),
    }
}

/// Ends the watch on a join.
fn observe(join: &dyn Join, site: Site, seen: Seen, pass: &mut Pass) {
    if let Some((watch, telemetry)) = pass.watched() {
        tch::no_grad(|| telemetry.add(site, watch, seen, join.gamma()));
    }
}

/// A branch whose output telemetry sees.
struct Watched<'a> {
    branch: &'a dyn Branch,
}

impl Branch for Watched<'_> {
    fn norm(&self, x: &Tensor) -> Tensor {
        self.branch.norm(x)
    }
    fn body(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let output = self.branch.body(h, pass);
        pass.record_branch(|| output.shallow_clone());
        output
    }
}

/// A branch whose output is dropped, for joins that go on mixing without it ([`DropRule::Branch`]).
struct Dropping<'a> {
    branch: &'a dyn Branch,
    dropped: &'a Dropped,
}

impl Branch for Dropping<'_> {
    fn norm(&self, x: &Tensor) -> Tensor {
        self.branch.norm(x)
    }

    fn body(&self, h: &Tensor, pass: &mut Pass) -> Tensor {
        let (indices, scale) = match self.dropped {
            Dropped::Nothing => return self.branch.body(h, pass),
            Dropped::All => return h.zeros_like(),
            Dropped::Kept { keep_prob } => {
                let output = self.branch.body(h, pass);
                pass.record_branch(|| output.shallow_clone());
                return output / *keep_prob;
            }
            Dropped::Sample { mask, keep_prob, .. } => {
                let output = self.branch.body(h, pass);
                pass.record_branch(|| output.shallow_clone());
                return output * (mask.to_kind(h.kind()) / *keep_prob);
            }
            Dropped::Subset { indices, scale, .. } => (indices, *scale),
        };
        let output = self.branch.body(&h.index_select(0, indices), pass); // [s, N, D]
        let whole = |part: &Tensor| {
            let zeros = Tensor::zeros(h.size(), (part.kind(), part.device()));
            zeros.index_add(0, indices, part)
        };
        pass.record_branch(|| whole(&output));
        whole(&(&output * scale))
    }
}
