//! What a chore shows: one labelled line per stage, and a bar on a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Prints one stage: a label of at most eight letters, and what happens.
pub(crate) fn say(label: &str, text: &str) {
    println!("{label:>8}  {text}");
}

/// Whether bars can be drawn; without a terminal, lines tell the progress.
pub(crate) fn draws() -> bool {
    stderr().is_terminal()
}

/// A bar of bytes; hidden without a terminal.
pub(crate) fn bar(total: u64) -> ProgressBar {
    let style = "{spinner} [{elapsed}] {bar:30} {decimal_bytes} of {decimal_total_bytes}  {wide_msg}";
    let style = ProgressStyle::with_template(style).expect("the template is valid");
    let target = if draws() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    bar.set_style(style);
    bar
}

/// Bytes as people say them: `1.3 GB`, `31 MB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        1_000_000.. => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.0} kB", bytes as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_say_them() {
        let sizes = [543_000_000, 2_512_000_000, 5_148].map(size);
        assert_eq!(sizes, ["543 MB", "2.5 GB", "5 kB"]);
    }
}
