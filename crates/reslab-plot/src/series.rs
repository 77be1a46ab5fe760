//! Series over seeds: their mean and range while all are there, and each by itself thereafter.

/// A point of several series: x, mean, smallest and largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub x: f64,
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// Several seeds of one figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Seeds {
    /// Where all seeds have a finite figure.
    pub together: Vec<Point>,
    /// What the others go on with after one has ended: a mean over those that are left would show the survivors.
    pub alone: Vec<Vec<(f64, f64)>>,
}

/// Puts the series of several seeds together, each sorted by x. Those without any point are passed over.
pub(crate) fn over_seeds(series: &[Vec<(f64, f64)>]) -> Seeds {
    let all: Vec<&Vec<(f64, f64)>> = series.iter().filter(|points| points.iter().any(|p| p.1.is_finite())).collect();
    let mut places = vec![0; all.len()];
    let mut together = Vec::new();
    let Some(first) = all.first() else { return Seeds::default() };
    for (x, _) in first.iter() {
        // Every place moves on to this x, so that all series are passed through once.
        for (place, points) in places.iter_mut().zip(&all) {
            while points.get(*place).is_some_and(|point| point.0 < *x) {
                *place += 1;
            }
        }
        let here =
            places.iter().zip(&all).map(|(place, points)| points.get(*place).filter(|p| p.0 == *x && p.1.is_finite()));
        let Some(here) = here.collect::<Option<Vec<_>>>() else { continue };
        let values = here.iter().map(|point| point.1);
        let mean = values.clone().sum::<f64>() / all.len() as f64;
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(y), h.max(y)));
        together.push(Point { x: *x, mean, low, high });
    }
    let last = together.last().map_or(f64::NEG_INFINITY, |point| point.x);
    let tails = all.iter().map(|points| points.iter().copied().filter(|p| p.0 >= last && p.1.is_finite()).collect());
    Seeds { together, alone: tails.filter(|tail: &Vec<_>| tail.len() > 1).collect() }
}

/// The mean over the steps `x - width + 1 ..= x` of each point.
pub fn smooth(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let mut first = 0;
    let mut smoothed = Vec::with_capacity(points.len());
    for (index, (x, _)) in points.iter().enumerate() {
        // The point itself stays, however large its x.
        while first < index && points[first].0 + width <= *x {
            first += 1;
        }
        let window = &points[first..=index];
        smoothed.push((*x, window.iter().map(|p| p.1).sum::<f64>() / window.len() as f64));
    }
    smoothed
}

/// At most about `most` points: each stands for several, with the mean of their means and all of their range.
pub(crate) fn thin(points: &[Point], most: usize) -> Vec<Point> {
    let size = points.len().div_ceil(most.max(1)).max(1);
    if size == 1 {
        return points.to_vec();
    }
    let join = |few: &[Point]| Point {
        x: few.iter().map(|p| p.x).sum::<f64>() / few.len() as f64,
        mean: few.iter().map(|p| p.mean).sum::<f64>() / few.len() as f64,
        low: few.iter().map(|p| p.low).fold(f64::INFINITY, f64::min),
        high: few.iter().map(|p| p.high).fold(f64::NEG_INFINITY, f64::max),
    };
    points.chunks(size).map(join).collect()
}

/// The same for a single series.
pub(crate) fn thin_alone(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let points: Vec<Point> = points.iter().map(|(x, y)| Point { x: *x, mean: *y, low: *y, high: *y }).collect();
    thin(&points, most).iter().map(|point| (point.x, point.mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_over_all_seeds_or_there_is_none() {
        let seeds = [vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)], vec![(0.0, 3.0), (1.0, 4.0)], vec![]];
        let got = over_seeds(&seeds);
        assert_eq!(
            got.together,
            [Point { x: 0.0, mean: 2.0, low: 1.0, high: 3.0 }, Point { x: 1.0, mean: 3.0, low: 2.0, high: 4.0 }]
        );
        assert_eq!(got.alone, [vec![(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]], "the survivor goes on by itself");
    }

    #[test]
    fn a_figure_that_is_not_finite_ends_what_is_together() {
        let seeds = [vec![(0.0, 1.0), (1.0, f64::NAN)], vec![(0.0, 1.0), (1.0, 5.0)], vec![(0.0, f64::NAN)]];
        let got = over_seeds(&seeds);
        assert_eq!(got.together.len(), 1, "a seed without a finite figure is as one without figures");
        assert_eq!(got.alone, [vec![(0.0, 1.0), (1.0, 5.0)]]);
        assert_eq!(over_seeds(&[]), Seeds::default());
    }

    /// A window of 2 steps: of 1, 2, 4 the means are 1, 1.5, 3; steps count, not rows.
    #[test]
    fn smoothing_is_over_the_steps_before() {
        assert_eq!(smooth(&[(0.0, 1.0), (1.0, 2.0), (2.0, 4.0)], 2.0), [(0.0, 1.0), (1.0, 1.5), (2.0, 3.0)]);
        assert_eq!(smooth(&[(0.0, 1.0), (5.0, 2.0)], 2.0), [(0.0, 1.0), (5.0, 2.0)]);
    }

    #[test]
    fn thinning_keeps_the_highest_and_the_lowest() {
        let points: Vec<Point> = (0..1000)
            .map(f64::from)
            .map(|x| Point {
                x,
                mean: 1.0,
                low: if x == 7.0 { -5.0 } else { 1.0 },
                high: if x == 777.0 { 90.0 } else { 1.0 },
            })
            .collect();
        let few = thin(&points, 100);
        assert_eq!(few.len(), 100);
        assert!(few.iter().any(|p| p.high == 90.0) && few.iter().any(|p| p.low == -5.0));
        assert_eq!(thin(&points, 1000), points);
    }
}
