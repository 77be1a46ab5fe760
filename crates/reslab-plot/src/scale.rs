//! From figures to places on an axis, and the ticks of an axis. Logarithms are `libm`'s, so that machines agree.

/// An axis: which figures stand at its two ends, and how those between are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Linear { low: f64, high: f64 },
    Log { low: f64, high: f64 },
}

/// A figure that is marked on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// Beyond this the ends of an axis are cut off.
const LARGEST: f64 = 1e150;

impl Scale {
    /// An axis on which all `values` have room; a constant gets room on both sides. Not finite ones are passed over.
    pub fn linear(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values.filter(|x| x.is_finite()))?;
        let room = if high > low { 0.04 * (high - low) } else { (0.1 * high.abs()).max(0.1) };
        Some(Self::linear_between(low - room, high + room))
    }

    /// The same on a logarithmic axis; what is not positive has no place on it and is passed over.
    pub fn log(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values.filter(|x| x.is_finite() && *x > 0.0))?;
        let room = if high > low { libm::pow(high / low, 0.04) } else { 1.5 };
        Some(Self::log_between(low / room, high * room))
    }

    /// From `low` to `high`, or as far as differences and quotients of the ends are numbers.
    pub fn linear_between(low: f64, high: f64) -> Self {
        Self::Linear { low: low.clamp(-LARGEST, LARGEST), high: high.clamp(-LARGEST, LARGEST) }
    }

    /// The same on a logarithmic axis.
    pub fn log_between(low: f64, high: f64) -> Self {
        let bounded = |x: f64| x.clamp(1.0 / LARGEST, LARGEST);
        let (low, high) = (bounded(low), bounded(high));
        if low < high { Self::Log { low, high } } else { Self::Log { low: low / 2.0, high: high * 2.0 } }
    }

    pub fn ends(self) -> (f64, f64) {
        let (Self::Linear { low, high } | Self::Log { low, high }) = self;
        (low, high)
    }

    /// Where a figure stands, from 0 to 1; one beyond an end stands at the end. `None` where it has no place.
    pub fn at(self, value: f64) -> Option<f64> {
        let share = match self {
            Self::Linear { low, high } => (value - low) / (high - low),
            // A figure of 0 or less lies below every end.
            Self::Log { low, .. } if value <= low => 0.0,
            Self::Log { low, high } => libm::log(value / low) / libm::log(high / low),
        };
        if share.is_nan() { None } else { Some(share.clamp(0.0, 1.0)) }
    }

    /// At most about `most` round figures on the axis.
    pub fn ticks(self, most: usize) -> Vec<Tick> {
        let (low, high) = self.ends();
        let values = match self {
            Self::Linear { .. } => round_steps(low, high, most),
            Self::Log { .. } => round_decades(low, high, most),
        };
        let step = values.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let short = values.iter().all(|x| *x == 0.0 || (1e-3..1e5).contains(&x.abs()));
        let label = |value: &f64| match self {
            Self::Linear { .. } if step.is_finite() => {
                let digits = (-(libm::log10(step) + 1e-9).floor()).clamp(0.0, 12.0) as usize;
                format!("{value:.digits$}")
            }
            _ if short => format!("{value}"),
            _ => format!("{value:e}"),
        };
        values.iter().map(|value| Tick { value: *value, label: label(value) }).collect()
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, x| match ends {
        None => Some((x, x)),
        Some((low, high)) => Some((f64::min(low, x), f64::max(high, x))),
    })
}

/// Multiples of the smallest step of 1, 2, 5 or 10 .. of which there are not too many; at least two of them.
fn round_steps(low: f64, high: f64, most: usize) -> Vec<f64> {
    let least = (high - low) / most.max(1) as f64;
    let unit = libm::pow(10.0, libm::log10(least).floor());
    // Through the decimal text, so that 3 x 0.1 is 0.3.
    let tidy = |x: f64| format!("{x:.12e}").parse().unwrap_or(x);
    let multiples = |step: f64| -> Vec<f64> {
        let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        (first..=last).map(|k| tidy(k as f64 * step)).collect()
    };
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0].map(|k| k * unit);
    let chosen = steps.iter().position(|step| *step >= least).unwrap_or(steps.len() - 1);
    let finer = steps[..=chosen].iter().rev().map(|step| multiples(*step));
    finer.into_iter().find(|values| values.len() >= 2).unwrap_or_default()
}

/// Powers of ten, every so many; where there are fewer than two, 2 and 5 times those as well; else round steps.
fn round_decades(low: f64, high: f64, most: usize) -> Vec<f64> {
    let exponents = |x: f64| (libm::log10(x) - 1e-9, libm::log10(x) + 1e-9);
    let (first, last) = (exponents(low).0.ceil() as i32, exponents(high).1.floor() as i32);
    let power = |k: i32| format!("1e{k}").parse::<f64>().unwrap_or(f64::NAN);
    let decades = (last - first + 1).max(0) as usize;
    if decades >= 2 {
        let every = decades.div_ceil(most.max(2)) as i32;
        let mut values: Vec<f64> = (first..=last).filter(|k| (k - last).rem_euclid(every) == 0).map(power).collect();
        if decades == 2 && most >= 5 {
            values =
                within(low, high, (first - 1..=last).flat_map(|k| [1.0, 3.0].map(|m| tidy_product(m, k))).collect());
        }
        return values;
    }
    let all = (first - 1..=last.max(first)).flat_map(|k| [1.0, 2.0, 5.0].map(|m| tidy_product(m, k))).collect();
    let some = within(low, high, all);
    if some.len() >= 2 { some } else { round_steps(low, high, most) }
}

fn tidy_product(m: f64, exponent: i32) -> f64 {
    format!("{m}e{exponent}").parse().unwrap_or(f64::NAN)
}

fn within(low: f64, high: f64, values: Vec<f64>) -> Vec<f64> {
    values.into_iter().filter(|x| *x >= low * (1.0 - 1e-9) && *x <= high * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, most: usize) -> Vec<String> {
        scale.ticks(most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_figures() {
        let linear = |low, high| labels(Scale::Linear { low, high }, 5);
        assert_eq!(linear(0.0, 300.0), ["0", "100", "200", "300"]);
        assert_eq!(linear(-12.0, 301.0), ["0", "100", "200", "300"]);
        assert_eq!(linear(0.5, 2.4), ["0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(linear(-0.03, 0.31), ["0.0", "0.1", "0.2", "0.3"]);
        let log = |low, high, most| labels(Scale::Log { low, high }, most);
        assert_eq!(log(1e-8, 0.2, 4), ["1e-7", "1e-5", "1e-3", "1e-1"]);
        assert_eq!(log(0.5, 12.0, 5), ["1", "3", "10"]);
        assert_eq!(log(0.6, 4.0, 5), ["1", "2"]);
        assert_eq!(log(1e-3, 1e-2, 4), ["0.001", "0.01"]);
    }

    #[test]
    fn every_axis_has_two_ticks_at_least() {
        for low in [1e-7, 0.013, 0.9, 1.0, 34.0, 1e4] {
            for ratio in [1.01, 1.5, 2.0, 9.0, 11.0, 1e3, 1e9] {
                for most in [3, 5, 8] {
                    for scale in [Scale::Log { low, high: low * ratio }, Scale::Linear { low, high: low * ratio }] {
                        let ticks = scale.ticks(most);
                        assert!((2..=2 * most).contains(&ticks.len()), "{scale:?} {most}: {ticks:?}");
                        assert!(ticks.iter().all(|t| scale.at(t.value).is_some()), "{ticks:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn places_run_from_end_to_end_and_what_lies_beyond_stands_there() {
        let log = Scale::Log { low: 1e-4, high: 1.0 };
        assert!((log.at(1e-2).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!((log.at(0.0), log.at(7.0), log.at(f64::NAN)), (Some(0.0), Some(1.0), None));
        assert_eq!(Scale::Linear { low: 0.0, high: 2.0 }.at(f64::INFINITY), Some(1.0));
        assert_eq!(Scale::linear([f64::NAN].into_iter()), None);
        assert_eq!(Scale::log([0.0, -1.0, f64::INFINITY].into_iter()), None);
        let constant = Scale::linear([3.0, 3.0].into_iter()).unwrap();
        assert_eq!(constant.at(3.0), Some(0.5));
    }
}
