//! Fewer points of a curve, without hiding what stands out.

/// At most about three points for each of `buckets` stretches of a curve: the lowest and the highest, and the first that
/// is not finite, each where it was; and the curve's two ends. A curve of few points stays as it is.
pub fn decimate(points: &[(u64, f64)], buckets: usize) -> Vec<(u64, f64)> {
    let buckets = buckets.max(1);
    if points.len() <= 2 * buckets {
        return points.to_vec();
    }
    let mut kept = vec![0, points.len() - 1];
    let size = points.len().div_ceil(buckets);
    for start in (0..points.len()).step_by(size) {
        let stretch = start..(start + size).min(points.len());
        let finite = || stretch.clone().filter(|at| points[*at].1.is_finite());
        let by_height = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        kept.extend(finite().min_by(by_height));
        kept.extend(finite().max_by(by_height));
        kept.extend(stretch.clone().find(|at| !points[*at].1.is_finite()));
    }
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|at| points[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10,000 steps of noise that a small generator makes; the same in every run.
    fn noise() -> Vec<(u64, f64)> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        (0..10_000).map(|step| (step, 1.0 + next())).collect()
    }

    #[test]
    fn every_stretch_keeps_its_lowest_and_its_highest_where_they_were() {
        let points = noise();
        let kept = decimate(&points, 400);
        assert!(kept.len() <= 802, "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0), "in the order of the steps, none twice");
        assert!(kept.iter().all(|point| points.contains(point)), "recorded figures, not means");
        for stretch in points.chunks(25) {
            let lowest = stretch.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
            let highest = stretch.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
            for extreme in [lowest, highest] {
                assert!(kept.iter().any(|p| p.1 == extreme && stretch.contains(p)), "{extreme}");
            }
        }
    }

    /// The control: every 25th step, which is what a plain thinning keeps, has neither spike.
    #[test]
    fn a_spike_of_one_step_is_kept_up_and_down() {
        let mut points = noise();
        points[7_777].1 = 90.0;
        points[3_333].1 = -5.0;
        let kept = decimate(&points, 400);
        assert!(kept.contains(&(7_777, 90.0)) && kept.contains(&(3_333, -5.0)));
        assert!(points.iter().step_by(25).all(|point| (0.0..3.0).contains(&point.1)), "negative control");
    }

    #[test]
    fn ends_gaps_and_short_curves_stay() {
        let mut points = noise();
        points[5_000].1 = f64::NAN;
        points[9_999].1 = f64::INFINITY;
        let kept = decimate(&points, 100);
        assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0, 9_999));
        assert!(kept.iter().any(|p| p.0 == 5_000 && p.1.is_nan()));
        let nothing: Vec<(u64, f64)> = (0..1_000).map(|step| (step, f64::NAN)).collect();
        assert!(decimate(&nothing, 10).len() <= 12);
        assert_eq!(decimate(&points[..50], 100).len(), 50);
        assert!(decimate(&[], 0).is_empty());
    }
}
