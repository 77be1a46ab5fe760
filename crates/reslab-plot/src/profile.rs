//! A figure over the blocks of one network: panels side by side, a line per kind of branch.

use crate::curves::{Curves, Line, Lines};
use crate::figure::Axis;
use crate::scale::Scale;
use crate::write::finish;
use crate::{Plot, PlotError};

/// One figure of every join.
#[derive(Debug, Clone)]
pub struct Profile {
    /// What it is: the panel's head.
    pub name: String,
    /// (block, figure) of attention and of the MLPs.
    pub lines: [Vec<(f64, f64)>; 2],
}

/// Figures without a unit against the block, on one logarithmic scale, `about` below the title; `Err` inside: why there is nothing to draw.
///
/// # Errors
/// The plot is too large to be drawn.
pub fn profile_plot(
    title: &str,
    about: &str,
    subject: &str,
    profiles: Vec<Profile>,
) -> Result<Result<Plot, String>, PlotError> {
    let last = profiles.iter().flat_map(|p| &p.lines).flatten().map(|point| point.0).fold(1.0, f64::max);
    let arm = |profile: Profile| Lines {
        name: profile.name,
        is_baseline: false,
        lines: ["attention", "mlp"]
            .into_iter()
            .zip(profile.lines)
            .filter(|(_, points)| !points.is_empty())
            .map(|(label, points)| Line {
                label: label.to_owned(),
                seeds: vec![points],
                events: Vec::new(),
                ends: Vec::new(),
            })
            .collect(),
        detail: String::new(),
    };
    let curves = Curves {
        title: title.to_owned(),
        about: about.to_owned(),
        x: Axis::new("block", Scale::Linear { low: 0.0, high: last }),
        y: "no unit (log)".to_owned(),
        log: true,
        cut: None,
        baseline: String::new(),
        events: None,
        per_arm: 0,
        arms: profiles.into_iter().map(arm).collect(),
    };
    finish("inspect", subject, curves.figure().map(|figure| figure.draw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_join_is_drawn_and_nothing_is_said_to_be_nothing() {
        let profile = |name: &str, factor: f64| Profile {
            name: name.to_owned(),
            lines: [0.1, 0.2].map(|start| (0..4).map(|block| (f64::from(block), factor * start)).collect()),
        };
        let plot = profile_plot("Title", "About.", "file", vec![profile("gamma", 1.0), profile("ratio", 0.1)]);
        let plot = plot.expect("small").expect("drawn");
        for part in ["Title", "gamma", "ratio", "attention", "mlp", "block"] {
            assert!(plot.svg.contains(part), "{part}");
        }
        let empty = Profile { name: "gamma".to_owned(), lines: [Vec::new(), Vec::new()] };
        assert!(profile_plot("Title", "About.", "file", vec![empty]).expect("small").is_err());
    }
}
