//! What git says of the program's own code when it is built: its commit, and what was changed since. The build script
//! includes this file; the crate compiles it for its tests alone.

use std::path::Path;
use std::process::Command;

/// What the program is made of: a change elsewhere (a README, a sweep file) makes no other program.
pub(crate) const CODE: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];

/// Bytes of a diff that are kept.
pub(crate) const LIMIT: usize = 1 << 20;

/// Diffs as `git apply` takes them, whatever the user has set.
const PLAIN: [&str; 6] =
    ["--no-color", "--no-ext-diff", "--no-textconv", "--binary", "--src-prefix=a/", "--dst-prefix=b/"];

/// The commit that last changed the code; nothing without git or a checkout.
pub(crate) fn commit(root: &Path) -> Option<String> {
    let answer = git(root, &[&["log", "-1", "--format=%H", "--"], &CODE[..]].concat())?;
    Some(text(&answer).trim().to_owned()).filter(|commit| !commit.is_empty())
}

/// Whether the code is not as it was committed.
pub(crate) fn is_dirty(root: &Path) -> bool {
    git(root, &[&["status", "--porcelain", "--"], &CODE[..]].concat()).is_some_and(|changes| !changes.is_empty())
}

/// What was changed: tracked files, and new ones (a strategy that was dropped in). Empty where nothing was. A diff
/// longer than [`LIMIT`] is cut, and its last line says so.
pub(crate) fn diff(root: &Path) -> Vec<u8> {
    let mut diff = git(root, &[&["diff", "HEAD"], &PLAIN[..], &["--"], &CODE[..]].concat()).unwrap_or_default();
    let list = [&["ls-files", "-z", "--others", "--exclude-standard", "--"], &CODE[..]].concat();
    let new = git(root, &list).unwrap_or_default();
    for file in text(&new).split_terminator('\0') {
        let against_nothing = [&["diff", "--no-index"], &PLAIN[..], &["--", "/dev/null", file]].concat();
        diff.extend(git(root, &against_nothing).unwrap_or_default());
    }
    bounded(diff, LIMIT)
}

/// The last line of a cut diff holds a checksum of all of it, so that two long ones are not taken for one.
fn bounded(mut diff: Vec<u8>, limit: usize) -> Vec<u8> {
    if diff.len() <= limit {
        return diff;
    }
    let line = format!("# cut here: {} bytes in all, their FNV-1a hash is {:016x}\n", diff.len(), fnv1a(&diff));
    let end = diff[..limit].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    diff.truncate(end);
    diff.extend(line.into_bytes());
    diff
}

/// A hash that a build script can have without a dependency: https://datatracker.ietf.org/doc/html/rfc9923.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What git answers in `root`; nothing where there is no git or no checkout.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    // `diff --no-index` ends with 1 where there is a difference.
    matches!(output.status.code(), Some(0 | 1)).then_some(output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A checkout with one committed file of code and one that is none.
    fn checkout() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        if git(dir.path(), &["init", "-q"]).is_none() {
            assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no git");
            println!("skipped: no git");
            return None;
        }
        fs::create_dir(dir.path().join("crates")).expect("a folder");
        fs::write(dir.path().join("crates/a.rs"), "one\ntwo\n").expect("written");
        fs::write(dir.path().join("Cargo.toml"), "").expect("written");
        fs::write(dir.path().join("Cargo.lock"), "").expect("written");
        fs::write(dir.path().join("README.md"), "words\n").expect("written");
        git(dir.path(), &["add", "."]).expect("added");
        let author = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"];
        git(dir.path(), &author).expect("committed");
        Some(dir)
    }

    #[test]
    fn what_is_committed_has_no_diff_and_words_beside_the_code_are_none_of_it() {
        let Some(dir) = checkout() else { return };
        let first = commit(dir.path()).expect("a commit");
        fs::write(dir.path().join("README.md"), "other words\n").expect("written");
        assert_eq!((is_dirty(dir.path()), diff(dir.path())), (false, Vec::new()));
        git(dir.path(), &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "words"]).expect("committed");
        assert_eq!(commit(dir.path()), Some(first), "no other program");
    }

    /// The diff, applied to the commit, gives the changed tree: an edit, a staged one, a new file, one that is no text.
    #[test]
    fn the_diff_turns_the_commit_into_the_changed_tree() {
        let Some(dir) = checkout() else { return };
        git(dir.path(), &["config", "diff.noprefix", "true"]).expect("set");
        let changed: [(&str, &[u8]); 4] = [
            ("crates/a.rs", b"one\nthree\n"),
            ("Cargo.toml", b"[workspace]\n"),
            ("crates/new.rs", b"fresh"),
            ("crates/bytes.bin", &[0, 255, 0, 7]),
        ];
        for (name, bytes) in changed {
            fs::write(dir.path().join(name), bytes).expect("written");
        }
        git(dir.path(), &["add", "Cargo.toml"]).expect("staged");
        let diff = diff(dir.path());
        assert!(is_dirty(dir.path()));
        git(dir.path(), &["reset", "-q", "--hard"]).expect("reset");
        git(dir.path(), &["clean", "-qfd"]).expect("cleaned");
        assert!(!dir.path().join("crates/new.rs").exists(), "negative control: the changes are gone");
        fs::write(dir.path().join("code.diff"), diff).expect("written");
        let mut apply = Command::new("git");
        let status = apply.args(["apply", "code.diff"]).current_dir(dir.path()).status().expect("git runs");
        assert!(status.success());
        for (name, bytes) in changed {
            assert_eq!(fs::read(dir.path().join(name)).expect("there"), bytes, "{name}");
        }
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line_and_two_long_ones_stay_two() {
        let long = |end: &str| format!("{}{end}", "0123456\n".repeat(10)).into_bytes();
        assert_eq!(bounded(long(""), 80), long(""), "just short enough");
        let cut = bounded(long("a"), 77);
        let words = text(&cut);
        assert!(words.starts_with(&"0123456\n".repeat(9)) && !words.contains("01234560"), "{words}");
        assert_eq!(words.lines().count(), 10);
        assert!(
            words.ends_with(&format!("# cut here: 81 bytes in all, their FNV-1a hash is {:016x}\n", fnv1a(&long("a"))))
        );
        assert_ne!(cut, bounded(long("b"), 77));
        // From the reference: of "a" it is af63dc4c8601ec8c.
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn without_a_checkout_nothing_is_claimed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!((commit(dir.path()), is_dirty(dir.path()), diff(dir.path())), (None, false, Vec::new()));
    }
}
