//! Mixup and CutMix: a sample and its partner in one image, and their labels in the same shares.
//!
//! Mixup: Zhang et al. 2017, arXiv:1710.09412. CutMix: Yun et al. 2019, arXiv:1905.04899. Both are here one formula,
//! `x = w * sample + (1 - w) * partner` with a map of weights `w`: constant for mixup, 0 in the box and 1 around it for CutMix. Differs from
//! timm: partners are a random permutation of the batch, where timm takes the batch backwards.

use tch::{Kind, Tensor};

use super::draws::DeviceMix;
use super::{Augment, Batch, Targets};
use crate::DataError;

impl Augment {
    /// images: f32 `[B, C, H, W]`, labels: i64 `[B]` -> the mixed batch with soft targets.
    pub(super) fn mix(&self, images: &Tensor, labels: &Tensor, mix: &DeviceMix) -> Result<Batch, DataError> {
        let weight = |nth| mix.weights.f_narrow(0, nth, 1);
        let inside_box = self.inside_box(&mix.region)?; // bool [H, W]
        let map = weight(0)?.f_where_self(&inside_box, &weight(1)?)?; // f32 [H, W]

        // From the partner towards the sample; lerp is exact where the weight is 0 or 1.
        let partners = images.f_index_select(0, &mix.partners)?;
        let images = partners.f_lerp_tensor(images, &map)?;
        // Not `one_hot`: it reads the labels' range back to the host.
        let own = labels.f_unsqueeze(1)?.f_eq_tensor(&self.classes)?.f_to_kind(Kind::Float)?; // [B, classes]
        let others = own.f_index_select(0, &mix.partners)?;
        Ok(Batch { images, targets: Targets::Soft(others.f_lerp_tensor(&own, &weight(2)?)?) })
    }

    fn inside_box(&self, region: &Tensor) -> Result<Tensor, DataError> {
        let bound = |nth| region.f_narrow(0, nth, 1);
        let rows = self.rows.f_ge_tensor(&bound(0)?)?.f_logical_and(&self.rows.f_lt_tensor(&bound(1)?)?)?; // [H, 1]
        let columns = self.columns.f_ge_tensor(&bound(2)?)?.f_logical_and(&self.columns.f_lt_tensor(&bound(3)?)?)?; // [1, W]
        Ok(rows.f_logical_and(&columns)?)
    }
}
