//! Colours that differ in grey too, and for readers with any colour vision.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rgb(pub u8, pub u8, pub u8);

pub(crate) const WHITE: Rgb = Rgb(255, 255, 255);
/// Text and axes.
pub(crate) const INK: Rgb = Rgb(28, 28, 28);
/// Text of less weight.
pub(crate) const SOFT: Rgb = Rgb(90, 90, 90);
/// The line that is there to compare with.
pub(crate) const REFERENCE: Rgb = Rgb(110, 110, 110);
/// Lines of the grid.
pub(crate) const GRID: Rgb = Rgb(228, 228, 228);
/// Blue of Okabe and Ito.
pub(crate) const BLUE: Rgb = Rgb(0, 114, 178);
/// Vermilion of Okabe and Ito.
pub(crate) const VERMILION: Rgb = Rgb(213, 94, 0);

/// Okabe and Ito's colours without yellow, which is too light on white; dark and light ones alternate.
const LINES: [Rgb; 7] =
    [BLUE, Rgb(230, 159, 0), Rgb(0, 0, 0), Rgb(86, 180, 233), VERMILION, Rgb(204, 121, 167), Rgb(0, 158, 115)];

/// The colour of the line with this number.
pub(crate) fn line(index: usize) -> Rgb {
    LINES[index % LINES.len()]
}

/// The colours of lines, in their order, as `#0072b2`; the baseline's grey is none of them.
pub fn line_colours() -> Vec<String> {
    LINES.iter().map(|Rgb(r, g, b)| format!("#{r:02x}{g:02x}{b:02x}")).collect()
}

/// Seventeen evenly spaced colours of cividis (Nunez, Anderton, Renslow 2018; matplotlib's values): lightness grows evenly.
const CIVIDIS: [Rgb; 17] = [
    Rgb(0, 34, 78),
    Rgb(0, 46, 106),
    Rgb(26, 56, 111),
    Rgb(50, 67, 109),
    Rgb(67, 78, 108),
    Rgb(83, 90, 109),
    Rgb(97, 101, 111),
    Rgb(111, 112, 115),
    Rgb(125, 124, 120),
    Rgb(140, 136, 120),
    Rgb(155, 148, 118),
    Rgb(171, 160, 114),
    Rgb(188, 174, 108),
    Rgb(205, 187, 99),
    Rgb(222, 201, 88),
    Rgb(240, 216, 70),
    Rgb(254, 232, 56),
];

/// The colour at `share` of the way from least to most.
pub(crate) fn cividis(share: f64) -> Rgb {
    let at = share.clamp(0.0, 1.0) * (CIVIDIS.len() - 1) as f64;
    let below = (at.floor() as usize).min(CIVIDIS.len() - 2);
    let (a, b, part) = (CIVIDIS[below], CIVIDIS[below + 1], at - below as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    Rgb(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rec. 709 luma, which is what a grey print keeps.
    fn grey(c: Rgb) -> f64 {
        0.2126 * f64::from(c.0) + 0.7152 * f64::from(c.1) + 0.0722 * f64::from(c.2)
    }

    #[test]
    fn the_scale_grows_lighter_all_the_way() {
        let greys: Vec<f64> = (0..=64).map(|k| grey(cividis(f64::from(k) / 64.0))).collect();
        assert!(greys.windows(2).all(|pair| pair[1] > pair[0]), "{greys:?}");
        assert!(greys[64] - greys[0] > 150.0);
        assert_eq!((cividis(-1.0), cividis(2.0)), (CIVIDIS[0], CIVIDIS[16]));
    }

    #[test]
    fn neighbouring_lines_differ_in_grey() {
        for pair in LINES.windows(2) {
            assert!((grey(pair[0]) - grey(pair[1])).abs() > 15.0, "{pair:?}");
        }
        assert!(LINES.iter().all(|c| grey(*c) < 175.0), "all stand out from white");
    }
}
