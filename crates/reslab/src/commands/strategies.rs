//! `reslab strategies [NAME]`: the strategies of this program, or all about one.

use crate::outcome::{Exit, Usage};
use crate::terminal::{Paint, say, wrap};
use anyhow::Result;
use reslab_config::nearest;
use reslab_residual::{
    DropMode, DropPathConfig, Registry, Schedule, Start, Strategy, Variant, check_compatible, start,
};

/// Arguments of `strategies`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One strategy: its equation, source, parameters and an example
    name: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    match &arguments.name {
        None => list(registry),
        Some(name) => show(registry.get(name).ok_or_else(|| unknown(name, registry))?, registry)?,
    }
    Ok(Exit::Done)
}

fn unknown(name: &str, registry: &Registry) -> anyhow::Error {
    let names: Vec<&str> = registry.names().collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if name == "drop_path" => {
            "; drop path is an axis that is crossed with every strategy: `drop_path = { .. }`, see docs/config.md."
                .to_owned()
        }
        None => ".".to_owned(),
    };
    Usage::error(format!(
        "no strategy `{name}`{hint} Known: {} (an arm's name is not its strategy's kind)",
        names.join(", ")
    ))
}

fn list(registry: &Registry) {
    let paint = Paint::stdout();
    let longest = registry.names().map(|name| name.len()).max().unwrap_or(0);
    for variant in registry.iter() {
        let padding = " ".repeat(longest - variant.name.len());
        say(format_args!("{}{padding}  {}", paint.bold(variant.name), variant.summary));
    }
    say("\n`reslab strategies NAME` shows one's equation, source, parameters and an example");
}

fn show(variant: &Variant, registry: &Registry) -> Result<()> {
    let paint = Paint::stdout();
    say(format_args!("{}: {}\n", paint.bold(variant.name), variant.summary));
    say(format_args!("{}\n    {}", paint.bold("equation"), variant.equation.replace('\n', "\n    ")));
    say(format_args!("{}\n    {}", paint.bold("source"), variant.source));
    say(paint.bold("keys"));
    let keys = (variant.keys)();
    for key in &keys {
        say(format_args!("    {} ({})\n{}", key.key, key.kind, wrap(&key.meaning, 100, "        ")));
    }
    if keys.is_empty() {
        say("    none");
    }
    let example = variant.example.trim().replace('\n', "\n    ");
    say(format_args!("{}\n    {example}", paint.bold("example of [residual]")));
    let strategy = registry.parse(&variant.example.parse()?)?;
    say(paint.bold("with these values"));
    say(format_args!("    parameters added per block: {}", variant.parameters.replace('*', " ")));
    for line in starts(&*strategy)? {
        say(format_args!("    at step 0: {line}"));
    }
    say(format_args!("    norm placements: {}", placements(&*strategy)));
    say(format_args!("    drop path: {}", drop_path(&*strategy)));
    Ok(())
}

/// Depth of the network that a strategy is shown in.
const DEPTH: usize = 12;

/// What the first join does at step 0, and the last block's where that differs.
fn starts(strategy: &dyn Strategy) -> Result<Vec<String>> {
    let [first, last] = [0, DEPTH - 1].map(|block| start(strategy, block, DEPTH).map(equation));
    let (first, last) = (first?, last?);
    Ok(if first == last {
        vec![first]
    } else {
        vec![format!("{first} in the first block of {DEPTH}"), format!("{last} in the last")]
    })
}

/// `y = x + 0.1 f(x)`.
fn equation(Start { residual, branch, rest }: Start) -> String {
    // Beyond what four shown digits hide.
    if rest > 1e-4 {
        return "not a sum of x and f(x)".to_owned();
    }
    let term = |factor: f64, of: &str| match format!("{factor:.4}").parse::<f64>() {
        Ok(1.0) => of.to_owned(),
        Ok(rounded) if rounded.abs() >= 0.001 => format!("{rounded} {of}"),
        _ => format!("{factor:.4e} {of}"),
    };
    let is_zero = |factor: f64| factor.abs() < 1e-12;
    match (is_zero(residual), is_zero(branch)) {
        (_, true) if (residual - 1.0).abs() < 1e-9 => "y = x (the identity)".to_owned(),
        (_, true) => format!("y = {}", term(residual, "x")),
        (true, false) => format!("y = {}", term(branch, "f(x)")),
        (false, false) => format!("y = {} + {}", term(residual, "x"), term(branch, "f(x)")),
    }
}

fn placements(strategy: &dyn Strategy) -> String {
    let names: Vec<&str> = strategy.norms().iter().map(|norm| norm.name()).collect();
    match names.as_slice() {
        [own] => format!("{own} only"),
        [own, others @ ..] => format!("{own}; also {}", others.join(", ")),
        [] => "none".to_owned(),
    }
}

fn drop_path(strategy: &dyn Strategy) -> String {
    let norm = strategy.norms()[0];
    let with = |mode| DropPathConfig { rate: 0.1, schedule: Schedule::Uniform, mode };
    match [DropMode::Sample, DropMode::Subset].map(|mode| check_compatible(strategy, &with(mode), norm)) {
        [Ok(()), Ok(())] => "yes, in all modes".to_owned(),
        [Ok(()), Err(error)] => format!("yes, but mode {}", error.problem),
        [Err(error), _] => format!("no: rate {}", error.problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_written_as_an_equation() {
        let of = |residual, branch, rest| equation(Start { residual, branch, rest });
        assert_eq!(of(1.0, 1.0, 1e-12), "y = x + f(x)");
        assert_eq!(of(1.0, 1e-5, 0.0), "y = x + 1.0000e-5 f(x)");
        assert_eq!(of(1.0, 1e-17, 0.0), "y = x (the identity)");
        assert_eq!(of(2.5, -0.28867, 0.0), "y = 2.5 x + -0.2887 f(x)");
        assert_eq!(of(0.0, 1.0, 0.0), "y = f(x)");
        assert_eq!(of(0.5, 0.5, 0.3), "not a sum of x and f(x)");
    }
}
