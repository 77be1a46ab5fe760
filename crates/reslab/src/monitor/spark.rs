//! Curves in few characters.

const LEVELS: [char; 8] =
    ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
/// A value that is not finite.
const NOT_FINITE: char = 'x';

/// The values in at most `width` characters, each as high as the largest of its values, so that no spike is lost.
pub(super) fn spark(values: &[f64], width: usize) -> String {
    let size = values.len().div_ceil(width.max(1)).max(1);
    let top = |few: &[f64]| match few.iter().all(|x| x.is_finite()) {
        true => few.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        false => f64::NAN,
    };
    let tops: Vec<f64> = values.chunks(size).map(top).collect();
    let finite = || tops.iter().copied().filter(|x| x.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let level = |x: f64| {
        // Halves first: the span of the largest floats is none itself.
        let share = (x / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
        LEVELS[if share.is_finite() { (share * 7.0).round() as usize } else { 0 }.min(7)]
    };
    tops.iter().map(|x| if x.is_finite() { level(*x) } else { NOT_FINITE }).collect()
}

/// Step and value of at most about `most` points: of each stretch the lowest and the highest.
pub(super) fn thin(values: &[f64], most: usize) -> Vec<(f64, f64)> {
    let size = (2 * values.len()).div_ceil(most.max(2)).max(1);
    let mut points = Vec::new();
    for (index, few) in values.chunks(size).enumerate() {
        let place = |k: usize| (index * size + k) as f64;
        let finite = || few.iter().copied().enumerate().filter(|(_, x)| x.is_finite());
        let low = finite().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = finite().max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(low), Some(high)) = (low, high) else { continue };
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        points.push((place(first.0), first.1));
        if first.0 != second.0 {
            points.push((place(second.0), second.1));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_falls_from_the_top_to_the_bottom_and_keeps_its_spikes() {
        assert_eq!(spark(&[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 8), LEVELS.iter().rev().collect::<String>());
        let mut values = vec![1.0; 1000];
        values[777] = 9.0;
        let short = spark(&values, 20);
        assert_eq!(short.chars().count(), 20);
        assert_eq!(short.chars().position(|c| c == LEVELS[7]), Some(15));
        assert_eq!(spark(&[], 20), "");
    }

    #[test]
    fn values_of_any_size_are_drawn() {
        assert_eq!(spark(&[1.0, 1.0], 4), "\u{2581}\u{2581}");
        assert_eq!(spark(&[1.0, f64::NAN, f64::INFINITY], 3), "\u{2581}xx");
        assert_eq!(spark(&[f64::MAX, -f64::MAX], 2), "\u{2588}\u{2581}");
        assert_eq!(spark(&[f64::NAN], 0), "x");
    }

    #[test]
    fn thinning_keeps_the_lowest_and_the_highest_where_they_are() {
        let mut values: Vec<f64> = vec![1.0; 10_000];
        (values[4321], values[4322], values[9000]) = (70.0, -5.0, f64::NAN);
        let points = thin(&values, 200);
        assert!(points.len() <= 200 && points.contains(&(4321.0, 70.0)) && points.contains(&(4322.0, -5.0)));
        assert!(points.iter().all(|p| p.1.is_finite()) && points.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thin(&[3.0, 1.0, 2.0], 200), [(0.0, 3.0), (1.0, 1.0), (2.0, 2.0)]);
    }
}
