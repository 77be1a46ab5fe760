//! Names of arms and folders.

/// The longest that an arm's name gets in a folder's name, bytes; the id keeps cut names distinct.
const LONGEST: usize = 80;

/// Per key the shortest run of its last segments that no other key of the list shares: `lr`, or `optim.lr` beside `head.lr`.
pub(crate) fn labels(keys: &[&str]) -> Vec<String> {
    let suffix = |key: &str, count: usize| {
        let parts: Vec<&str> = key.split('.').collect();
        parts[parts.len().saturating_sub(count)..].join(".")
    };
    let label = |(index, key): (usize, &&str)| {
        let others = || keys.iter().enumerate().filter(move |(other, _)| *other != index);
        let depth = key.split('.').count();
        (1..=depth)
            .map(|n| (n, suffix(key, n)))
            .find(|(n, s)| others().all(|(_, o)| suffix(o, *n) != *s))
            .map_or_else(|| (*key).to_owned(), |(_, s)| s)
    };
    keys.iter().enumerate().map(label).collect()
}

/// `name` with all but letters, digits, `.`, `-`, `=`, `+` as `_`, cut where it is long.
pub(crate) fn folder_safe(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || ".-=+".contains(c) { c } else { '_' };
    name.chars().map(keep).take(LONGEST).collect()
}

/// The folder of a run inside the sweep's: `runs/plain-s0-1a2b3c4d`.
pub(crate) fn run_folder(arm: &str, seed: u64, id: &str) -> String {
    format!("runs/{}-s{seed}-{}", folder_safe(arm), &id[..8.min(id.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_shortest_distinct_last_segments() {
        assert_eq!(labels(&["residual.init", "optim.lr"]), ["init", "lr"]);
        assert_eq!(labels(&["residual.init", "model.init", "optim.lr"]), ["residual.init", "model.init", "lr"]);
        assert_eq!(labels(&["a.b.c", "d.b.c", "b.c"]), ["a.b.c", "d.b.c", "b.c"]);
        assert_eq!(labels(&["residual"]), ["residual"]);
    }

    #[test]
    fn folder_names_hold_only_plain_characters_and_are_cut() {
        assert_eq!(
            run_folder("layer_scale[init=1e-5]", 3, "0123456789abcdef"),
            "runs/layer_scale_init=1e-5_-s3-01234567"
        );
        assert_eq!(folder_safe("a/b c.d+e=f-g\u{e9}"), "a_b_c.d+e=f-g_");
        assert_eq!(folder_safe(&"x".repeat(500)).len(), 80);
    }
}
