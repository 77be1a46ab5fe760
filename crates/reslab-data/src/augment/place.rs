//! Random crop with padding and mirroring, as one gather.

use tch::Tensor;

use super::Augment;
use super::draws::Places;
use crate::DataError;

impl Augment {
    /// images: u8 `[B, C, H, W]` -> u8 `[B, C, H, W]`: each cut from its padded self at its offsets, then mirrored where it is dealt so.
    pub(super) fn place(&self, images: &Tensor, places: &Places) -> Result<Tensor, DataError> {
        let (batch, channels, height, width) = images.size4()?;
        let pad = i64::from(self.config.crop_pad);
        let padded_width = width + 2 * pad;
        let padded = images.f_constant_pad_nd([pad, pad, pad, pad])?; // [B, C, H+2p, W+2p], zeros around

        let per_sample = |numbers: &Tensor| numbers.f_view([batch, 1, 1]);
        let mut rows = self.rows.shallow_clone(); // [H, 1]
        let mut columns = self.columns.shallow_clone(); // [1, W]
        if let Some(flips) = &places.flips {
            // Mirrored, column x comes from W-1-x: x + flip * (W-1 - 2x).
            let turn = self.columns.f_mul_scalar(-2)?.f_add_scalar(width - 1)?; // [1, W]
            columns = columns.f_add(&per_sample(flips)?.f_mul(&turn)?)?; // [B, 1, W]
        }
        if let (Some(row_offsets), Some(column_offsets)) = (&places.rows, &places.columns) {
            rows = rows.f_add(&per_sample(row_offsets)?)?; // [B, H, 1]
            columns = columns.f_add(&per_sample(column_offsets)?)?; // [B, 1, W]
        }
        let sources = rows.f_mul_scalar(padded_width)?.f_add(&columns)?; // [B, H, W], places in a padded plane
        let sources = sources.f_view([batch, 1, height * width])?.f_expand([batch, channels, height * width], false)?;
        let planes = padded.f_view([batch, channels, (height + 2 * pad) * padded_width])?;
        Ok(planes.f_gather(2, &sources, false)?.f_view([batch, channels, height, width])?)
    }
}
