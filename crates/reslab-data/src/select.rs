//! Which images of the training part are trained on and which validate: the same ones in every run.
//!
//! Of each class, one permutation is drawn from `stream(SPLIT_SEED, "split", [class])`. Validation takes images from its front,
//! training from its back. So neither depends on the run's seed, validation does not depend on `train_images`, and every class has its
//! share of both: shares are rounded by largest remainders, the lower class first where they tie.

use reslab_torch::stream;

/// The seed of every split. A constant: a run's own seed must not decide which images judge it.
pub const SPLIT_SEED: u64 = 20_240_817;

/// Image numbers of the training part, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) train: Vec<usize>,
    pub(crate) val: Vec<usize>,
}

/// Draws `train` and `val` images, together at most as many as there are labels.
pub(crate) fn select(labels: &[u16], train: u64, val: u64) -> Selection {
    assert!(train + val <= labels.len() as u64, "{train} + {val} images of {}", labels.len());
    let classes = members(labels);
    let sizes: Vec<u64> = classes.iter().map(|class| class.len() as u64).collect();
    let val_shares = shares(&sizes, val);
    let left: Vec<u64> = sizes.iter().zip(&val_shares).map(|(size, share)| size - share).collect();
    let train_shares = shares(&left, train);

    let mut selection = Selection { train: Vec::new(), val: Vec::new() };
    for (class, members) in classes.iter().enumerate() {
        let order = stream(SPLIT_SEED, "split", &[class as u64]).permutation(members.len());
        let image = |nth: &i64| members[*nth as usize];
        selection.val.extend(order.iter().take(val_shares[class] as usize).map(image));
        selection.train.extend(order.iter().rev().take(train_shares[class] as usize).map(image));
    }
    selection.train.sort_unstable();
    selection.val.sort_unstable();
    selection
}

/// The images of each class, ascending.
fn members(labels: &[u16]) -> Vec<Vec<usize>> {
    let num_classes = labels.iter().max().map_or(0, |top| usize::from(*top) + 1);
    let mut classes = vec![Vec::new(); num_classes];
    for (image, label) in labels.iter().enumerate() {
        classes[usize::from(*label)].push(image);
    }
    classes
}

/// Shares of `wanted` things in proportion to `sizes`, in exact arithmetic; none above its size.
fn shares(sizes: &[u64], wanted: u64) -> Vec<u64> {
    let total: u64 = sizes.iter().sum();
    if total == 0 {
        return vec![0; sizes.len()];
    }
    let mut shares: Vec<u64> = sizes.iter().map(|size| size * wanted / total).collect();
    let remainder = |class: &usize| sizes[*class] * wanted % total;
    let mut by_remainder: Vec<usize> = (0..sizes.len()).collect();
    by_remainder.sort_by_key(|class| std::cmp::Reverse(remainder(class)));
    let missing = wanted - shares.iter().sum::<u64>();
    for class in by_remainder.into_iter().take(missing as usize) {
        shares[class] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three classes of 50, 30 and 20 images, mixed.
    fn labels() -> Vec<u16> {
        (0..100)
            .map(|i| {
                if i % 2 == 0 {
                    0
                } else if i % 10 < 6 {
                    1
                } else {
                    2
                }
            })
            .collect()
    }

    fn count(labels: &[u16], images: &[usize]) -> Vec<usize> {
        (0..3).map(|class| images.iter().filter(|image| labels[**image] == class).count()).collect()
    }

    #[test]
    fn every_class_has_its_share_and_no_image_is_in_both() {
        let labels = labels();
        assert_eq!(count(&labels, &(0..100).collect::<Vec<_>>()), [50, 30, 20]);
        let drawn = select(&labels, 40, 20);
        assert_eq!(count(&labels, &drawn.val), [10, 6, 4]);
        assert_eq!(count(&labels, &drawn.train), [20, 12, 8]);
        assert!(drawn.train.iter().all(|image| !drawn.val.contains(image)));
        assert!(drawn.train.is_sorted() && drawn.val.is_sorted());
        // Negative control: the first 20 images of the file are not in proportion to those of any other 20 by chance.
        assert_ne!(drawn.val, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn validation_does_not_depend_on_the_training_images_and_smaller_subsets_are_nested() {
        let labels = labels();
        let (small, large) = (select(&labels, 10, 20), select(&labels, 80, 20));
        assert_eq!(small.val, large.val);
        assert!(small.train.iter().all(|image| large.train.contains(image)));
        assert_ne!(select(&labels, 10, 30).val, small.val);
    }

    #[test]
    fn everything_can_be_used_whatever_the_rounding() {
        let labels = labels();
        for val in 0..100 {
            let drawn = select(&labels, 100 - val, val);
            let mut all: Vec<usize> = drawn.train.iter().chain(&drawn.val).copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..100).collect::<Vec<_>>(), "with {val} validation images");
        }
    }

    #[test]
    fn shares_round_by_largest_remainder_and_sum_up() {
        assert_eq!(shares(&[5, 3, 2], 3), [1, 1, 1]);
        assert_eq!(shares(&[1, 1, 1], 2), [1, 1, 0]);
        assert_eq!(shares(&[0, 7, 0], 7), [0, 7, 0]);
        assert_eq!(shares(&[], 0), [0; 0]);
        assert_eq!(shares(&[0, 0], 0), [0, 0]);
    }
}
