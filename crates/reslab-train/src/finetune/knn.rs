//! k-NN classification by cosine similarity of features.
//!
//! Shapes: N images of the training split, V images to classify, F features, C classes.

use reslab_torch::tch::{Kind, Tensor};

use super::config::Knn;

/// Images that are compared with all neighbours at once.
const CHUNK: i64 = 1024;

/// Features of images and their classes.
#[derive(Debug)]
pub(crate) struct Featured {
    pub features: Tensor, // [N, F]
    pub labels: Tensor,   // [N], i64
}

/// The share of `queries` whose class is the one that most of their neighbours have, each counted exp(cosine / temperature).
pub(crate) fn accuracy(neighbours: &Featured, queries: &Featured, classes: i64, knn: Knn) -> f64 {
    let unit = |x: &Tensor| x / x.norm_scalaropt_dim(2, [1], true).clamp_min(f64::MIN_POSITIVE);
    let known = unit(&neighbours.features).transpose(0, 1); // [F, N]
    let asked = unit(&queries.features); // [V, F]
    let (count, mut right) = (asked.size()[0], 0.0);
    for start in (0..count).step_by(CHUNK as usize) {
        let size = CHUNK.min(count - start);
        let (cosine, index) = asked.narrow(0, start, size).matmul(&known).topk(knn.k as i64, 1, true, true); // [v, k]
        let classes_of = neighbours.labels.index_select(0, &index.view([-1])).view([size, -1]); // [v, k]
        // Against the largest, so that no temperature overflows.
        let weight = ((&cosine - cosine.amax([1i64].as_slice(), true)) / knn.temperature).exp();
        let votes = Tensor::zeros([size, classes], (Kind::Float, asked.device())).scatter_add(1, &classes_of, &weight);
        let found = votes.argmax(1, false).eq_tensor(&queries.labels.narrow(0, start, size));
        right += found.sum(Kind::Double).double_value(&[]);
    }
    right / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn featured(rows: &[[f32; 2]], labels: &[i64]) -> Featured {
        Featured { features: Tensor::from_slice2(rows), labels: Tensor::from_slice(labels) }
    }

    #[test]
    fn neighbours_vote_by_cosine_and_temperature() {
        // Directions only count: the long vector is as near as the short one.
        let known = featured(&[[1.0, 0.0], [0.0, 50.0], [0.1, 1.0]], &[0, 1, 1]);
        let asked = featured(&[[3.0, 0.3], [0.0, 0.1], [1.0, 0.9]], &[0, 1, 0]);
        let score = |k, temperature| accuracy(&known, &asked, 2, Knn { images: 3, k, temperature });
        assert_eq!(score(1, 0.07), 1.0);
        assert_eq!(score(3, 0.01), 1.0, "a low temperature lets the nearest decide");
        // The last one's cosines are .743, .740 and .669: votes of 1 against .95 + .35.
        assert_eq!(score(3, 0.07), 2.0 / 3.0);
        assert_eq!(score(3, 100.0), 1.0 / 3.0, "a high one counts heads: class 1 has two of three");
    }
}
