//! Disks that are full or read-only, and a limit on the size of files. Full and read-only ones are mounted in a namespace
//! of their own, which ends with its processes: nothing is left, and no root is needed where the system lets users do so.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::records::{Files, assert_same, done, place, read_results};
use crate::support::Place;

const SWEEP: [&str; 10] = ["sweep", "faults.toml", "--threads", "1", "--jobs", "2", "--out", "here", "--seeds", "0"];
/// The same, as a shell takes it.
const SWEEP_LINE: &str = "\"$RESLAB\" sweep faults.toml --threads 1 --jobs 2 --out here --seeds 0";
const RUNS: usize = 2;

fn undisturbed() -> Files {
    let place = place();
    place.call(&SWEEP).expect(0);
    read_results(&place.at("here/faults"))
}

/// The words of `unshare` that give a namespace in which a file system can be mounted here; a skip where there are none.
fn namespace(place: &Place) -> Option<&'static [&'static str]> {
    let kinds: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];
    std::fs::create_dir_all(place.at("probe")).expect("a folder");
    let works = |kind: &&[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(*kind).args(["mount", "-t", "tmpfs", "none"]).arg(place.at("probe"));
        unshare.output().is_ok_and(|output| output.status.success())
    };
    let found = kinds.into_iter().find(works);
    if found.is_none() {
        println!("skipped: no file system can be mounted here, not even in a namespace of one's own (unshare)");
        assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no mounts");
    }
    found
}

/// Runs a script in the place, with a mount namespace of its own; all that it printed.
fn script(place: &Place, kind: &[&str], text: &str) -> String {
    let mut command = Command::new("unshare");
    command.args(kind).args(["sh", "-e", "-c", text]).current_dir(place.at(""));
    command.env_clear().env("RESLAB", env!("CARGO_BIN_EXE_reslab")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command.output().expect("it worked a moment ago");
    let words = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "the script itself failed:\n{words}");
    words
}

/// What stands in a file that the script wrote.
fn said(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.at(name)).expect("the script wrote it")
}

/// `free` KiB are left at the start; then there is room again.
fn filled(free: u32) -> String {
    format!(
        "mkdir here
         mount -t tmpfs -o size=16m none here
         head -c 16m /dev/zero > here/filler 2> /dev/null || true
         truncate -s -{free}k here/filler
         code=0; {SWEEP_LINE} > words 2>&1 || code=$?; echo $code > code
         rm here/filler
         code=0; {SWEEP_LINE} > again 2>&1 || code=$?; echo $code > code-again
         cp -r here there"
    )
}

#[test]
fn on_a_full_disk_a_sweep_says_so_and_goes_on_when_there_is_room() {
    let expected = undisturbed();
    let Some(kind) = namespace(&place()) else { return };
    // From no byte at all to almost enough for the checkpoint.
    for free in [0, 32, 150, 4000] {
        let place = place();
        script(&place, kind, &filled(free));
        let (words, code) = (said(&place, "words"), said(&place, "code"));
        assert_eq!(code.trim(), "1", "{free} KiB: {words}");
        let tells = words.contains("No space left on device") || words.contains("not enough space");
        assert!(tells && words.contains("here/faults") && words.contains("--out"), "{free} KiB: {words}");
        assert!(!words.contains("(bug)") && !words.contains("failed: bug"), "{free} KiB: {words}");
        assert_eq!(said(&place, "code-again").trim(), "0", "{free} KiB: {}", said(&place, "again"));
        assert_eq!(done(&place.at("there/faults")), RUNS);
        assert_same(&read_results(&place.at("there/faults")), &expected, &format!("{free} KiB: {words}"));
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named_and_one_that_is_done_is_shown() {
    let place = place();
    let Some(kind) = namespace(&place) else { return };
    // One of two runs is done.
    place.call(&[&SWEEP[..], &["--arm", "plain"]].concat()).expect(0);
    let before = place.files();
    let text = format!(
        "mount --bind here here
         mount -o remount,ro,bind here
         code=0; {SWEEP_LINE} > words 2>&1 || code=$?; echo $code > code
         code=0; {SWEEP_LINE} --out here/new > words-new 2>&1 || code=$?; echo $code > code-new"
    )
    .replace("--out here --seeds 0 --out here/new", "--out here/new --seeds 0");
    script(&place, kind, &text);
    for (name, file) in [("", "here/faults"), ("-new", "here/new")] {
        let words = said(&place, &format!("words{name}"));
        assert_eq!(said(&place, &format!("code{name}")).trim(), "1", "{words}");
        assert!(words.contains(file) && words.contains("Read-only") && words.contains("--out"), "{words}");
    }
    for name in ["words", "code", "words-new", "code-new"] {
        std::fs::remove_file(place.at(name)).expect("there");
    }
    assert!(place.files() == before, "something changed");

    place.call(&SWEEP).expect(0);
    let text = format!(
        "mount --bind here here
         mount -o remount,ro,bind here
         {SWEEP_LINE} > words 2>&1"
    );
    script(&place, kind, &text);
    assert!(said(&place, "words").contains("all 2 runs are done"), "{}", said(&place, "words"));
    assert_same(&read_results(&place.at("here/faults")), &undisturbed(), "afterwards");
}

/// The limit is below the size of a checkpoint, so that its writing is torn.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_that_names_the_file() {
    let place = place();
    let output = limited(&place, 60_000).output().expect("it starts");
    let words = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("checkpoint.safetensors") && words.contains("File too large"), "{words}");
    assert!(words.contains("(io)"), "{words}");
    place.call(&SWEEP).expect(0);
    assert_same(&read_results(&place.at("here/faults")), &undisturbed(), &words);
}

fn limited(place: &Place, bytes: libc::rlim_t) -> Command {
    let mut command = place.command(&SWEEP);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    let set = move || {
        // SAFETY: a plain system call, which may stand between fork and exec.
        if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) } == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: `set` only makes that call.
    unsafe { command.pre_exec(set) };
    command
}

/// The mounts of these tests are seen by nobody else.
#[test]
fn a_mount_of_a_script_ends_with_it() {
    let place = place();
    let Some(kind) = namespace(&place) else { return };
    script(&place, kind, "mkdir here; mount -t tmpfs none here; touch here/file; test -e here/file");
    assert!(place.at("here").is_dir() && !Path::new(&place.at("here/file")).exists());
}

/// Results that were asked for and did not reach their file are no success; a reader that left is.
#[test]
fn a_full_standard_output_is_told_and_a_closed_pipe_is_not() {
    let place = place();
    for arguments in [&["plan", "faults.toml"][..], &["strategies"], &["doctor"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = place.command(arguments).stdout(full).output().expect("it starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {words}");
        assert!(words.contains("standard output: cannot write: No space left"), "{words}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = place.command(arguments).stdout(writer).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
