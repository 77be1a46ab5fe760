//! Which images are in the batch of a step.

use reslab_config::{ConfigError, require};
use reslab_torch::stream;

/// The order of the training images: a new permutation each epoch, cut into batches; the last incomplete batch is dropped.
///
/// The permutation of an epoch comes from `stream(seed, "order", [epoch])`: any step can be asked for at any time, so a resumed
/// run replays nothing. The last permutation is kept, so steps in sequence cost no new draw.
#[derive(Debug, Clone)]
pub struct Order {
    seed: u64,
    images: usize,
    batch: usize,
    /// An epoch and its permutation of 0..images.
    drawn: Option<(u64, Vec<i64>)>,
}

impl Order {
    /// The order of `images` images in logical batches of `batch`.
    ///
    /// # Errors
    /// At `train.batch`, when it is 0 or there are not enough images for one batch.
    pub fn new(seed: u64, images: usize, batch: usize) -> Result<Self, ConfigError> {
        require(batch > 0, "train.batch", || "must be at least 1, but is 0".to_owned())?;
        require(batch <= images, "train.batch", || {
            format!("must be at most the number of training images, {images}, but is {batch}")
        })?;
        Ok(Self { seed, images, batch, drawn: None })
    }

    /// Optimizer steps of one epoch: whole batches only.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.images / self.batch) as u64
    }

    /// Epochs done before `step`, as a fraction.
    pub fn epoch(&self, step: u64) -> f64 {
        step as f64 / self.steps_per_epoch() as f64
    }

    /// The images of the batch of `step`, `[B]`.
    pub fn indices(&mut self, step: u64) -> Vec<i64> {
        let epoch = step / self.steps_per_epoch();
        let (nth, batch) = ((step % self.steps_per_epoch()) as usize, self.batch);
        self.permutation(epoch)[nth * batch..][..batch].to_vec()
    }

    fn permutation(&mut self, epoch: u64) -> &[i64] {
        if self.drawn.as_ref().is_none_or(|(drawn, _)| *drawn != epoch) {
            self.drawn = Some((epoch, stream(self.seed, "order", &[epoch]).permutation(self.images)));
        }
        self.drawn.as_ref().map_or(&[], |(_, permutation)| permutation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Order {
        Order::new(seed, 23, 5).expect("23 images make batches of 5")
    }

    #[test]
    fn an_epoch_shows_no_image_twice_and_drops_the_incomplete_batch() {
        let mut order = order(1);
        assert_eq!(order.steps_per_epoch(), 4);
        let mut seen: Vec<i64> = (0..4).flat_map(|step| order.indices(step)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 20);
        assert!(seen.iter().all(|image| (0..23).contains(image)));
        assert_eq!((order.epoch(0), order.epoch(6)), (0.0, 1.5));
    }

    #[test]
    fn every_image_is_seen_over_the_epochs() {
        let mut order = order(1);
        let mut seen: Vec<i64> = (0..80).flat_map(|step| order.indices(step)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..23).collect::<Vec<_>>());
    }

    #[test]
    fn any_step_can_be_asked_for_at_any_time() {
        let mut forward = order(7);
        let all: Vec<Vec<i64>> = (0..40).map(|step| forward.indices(step)).collect();
        for step in [39, 0, 17, 4, 3, 38, 17] {
            assert_eq!(order(7).indices(step), all[step as usize]);
            assert_eq!(forward.indices(step), all[step as usize]);
        }
        // Negative controls: another seed, another epoch.
        assert_ne!(order(8).indices(0), all[0]);
        assert_ne!(all[4], all[0]);
    }

    #[test]
    fn a_batch_larger_than_the_data_is_refused() {
        assert!(Order::new(0, 5, 5).is_ok());
        for batch in [0, 6] {
            let error = Order::new(0, 5, batch).expect_err("refused");
            assert_eq!(error.key, "train.batch");
        }
    }
}
