//! `reslab watch` beside a real sweep, and on folders in every state: on a terminal of its own, and without one.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::Place;

/// Longer than anything here takes on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(120);
const SWEEP: [&str; 8] = ["sweep", "tiny.toml", "--out", "here", "--threads", "1", "--jobs", "1"];

/// Waits for the end of a child.
#[track_caller]
fn code(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status.code();
        }
        if began.elapsed() > PATIENCE {
            child.kill().expect("it is ours");
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_a_terminal_a_real_sweep_is_followed_line_by_line_to_its_end() {
    let place = Place::new();
    let long = [&SWEEP[..], &["--set", "train.steps=1500", "--set", "train.eval_every=500"]].concat();
    let quiet = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut sweep = quiet(&long).spawn().expect("it starts");
    let dir = place.at("here/tiny");
    wait_for("the plan", || dir.join("plan.toml").is_file());
    let out = place.at("watch.txt");
    let mut watch = place.command(&["watch", "here/tiny"]);
    let mut watch = watch.stdout(File::create(&out).expect("a file")).spawn().expect("it starts");
    assert_eq!((code(&mut sweep), code(&mut watch)), (Some(0), Some(0)));
    let text = std::fs::read_to_string(&out).expect("readable");
    for run in ["plain-s0", "plain-s1", "layer_scale-s0", "layer_scale-s1"] {
        let own: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("{run}: "))).collect();
        assert!(own.iter().any(|line| line.contains("running")), "{run}:\n{text}");
        let last = own.last().unwrap_or(&"");
        assert!(last.contains(": done  test/top1 ") && last.contains("step 1500/1500"), "{run}:\n{text}");
    }
    assert!(text.lines().any(|line| line.contains("running  on cpu") && line.contains("val ")), "{text}");
    assert_eq!(text.lines().last(), Some("finished: 4 of 4 done"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[test]
fn a_finished_sweep_is_shown_at_once_and_nothing_is_written() {
    let place = Place::new();
    place.call(&SWEEP).expect(0);
    let stat = || {
        let times = place.files().into_iter().map(|(path, bytes)| {
            let meta = std::fs::metadata(&path).expect("there");
            (path, bytes, meta.modified().expect("a time"))
        });
        times.collect::<Vec<_>>()
    };
    let before = stat();
    let once = place.call(&["watch", "here/tiny", "--once"]).expect(0);
    for part in ["tiny: 4 of 4 done", "test/top1", "plain-s0 ", "40/40", "layer_scale-s1 "] {
        assert!(once.out.contains(part), "no {part:?} in:\n{}", once.out);
    }
    let lines = place.call(&["watch", "here/tiny"]).expect(0);
    assert!(lines.out.contains("plain-s0: done  test/top1 "), "{}", lines.out);
    assert!(lines.out.ends_with("finished: 4 of 4 done\n"), "{}", lines.out);
    assert!(stat() == before, "watching wrote something");
    read_only(&place);
}

/// On a file system that can't be written to, a look for writing would fail.
fn read_only(place: &Place) {
    let script = "mount --bind here here && mount -o remount,ro,bind here && ! touch here/x 2> /dev/null && \
                  \"$RESLAB\" watch here/tiny --once";
    let kinds: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];
    let call = |kind: &&[&str]| {
        let mut command = std::process::Command::new("unshare");
        command
            .args(*kind)
            .args(["sh", "-c", script])
            .current_dir(place.at("."))
            .env("RESLAB", env!("CARGO_BIN_EXE_reslab"));
        command.output().ok().filter(|output| output.status.success())
    };
    match kinds.iter().find_map(call) {
        Some(output) => assert!(String::from_utf8_lossy(&output.stdout).contains("4 of 4 done")),
        None => {
            println!("skipped: nothing can be mounted here, not even in a namespace of one's own (unshare)");
            assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no mounts, or it wants to write");
        }
    }
}

#[test]
fn missing_empty_and_damaged_folders_are_told() {
    let place = Place::new();
    let missing = place.call(&["watch", "nowhere"]).expect(2);
    assert!(missing.err.contains("nowhere: no sweep's folder") && missing.out.is_empty(), "{}", missing.err);
    std::fs::create_dir(place.at("empty")).expect("made");
    place.call(&["watch", "empty"]).expect(2);

    place.call(&SWEEP).expect(0);
    let dir = place.at("here/tiny");
    let run = |name: &str, file: &str| place.run_dir("here/tiny", name).join(file);
    let cut = |path: &Path| {
        let bytes = std::fs::read(path).expect("there");
        std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
    };
    cut(&run("plain-s0", "done.json"));
    std::fs::write(run("plain-s1", "steps.csv"), b"\xff\xfe\0rubbish\n").expect("written");
    cut(&run("layer_scale-s0", "steps.csv"));
    std::fs::remove_dir_all(place.run_dir("here/tiny", "layer_scale-s1")).expect("removed");
    let once = place.call(&["watch", "here/tiny", "--once"]).expect(0);
    for part in ["2 of 4 done", "1 waiting", "1 failed", "damaged", "done.json", "steps.csv: damaged"] {
        assert!(once.out.contains(part), "no {part:?} in:\n{}", once.out);
    }
    cut(&dir.join("plan.toml"));
    let damaged = place.call(&["watch", "here/tiny"]).expect(2);
    assert!(damaged.err.contains("plan.toml"), "{}", damaged.err);

    std::fs::remove_dir_all(&dir).expect("removed");
    place.call(&[&SWEEP[..], &["--arm", "plain", "--seeds", "0"]].concat()).expect(0);
    let idle = place.call(&["watch", "here/tiny", "--once"]).expect(0);
    assert!(idle.out.contains("1 of 4 done, 3 waiting"), "{}", idle.out);
}

/// A terminal of 100 x 30, of which this is the other side.
struct Screen {
    child: Child,
    keys: File,
    seen: std::thread::JoinHandle<String>,
}

impl Screen {
    fn open(place: &Place, arguments: &[&str]) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        let size = libc::winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: a plain call that fills two descriptors, which are owned from here on.
        let (ours, theirs) = unsafe {
            assert_eq!(libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size), 0);
            (File::from_raw_fd(ours), File::from_raw_fd(theirs))
        };
        let side = || theirs.try_clone().expect("a descriptor");
        let mut command = place.command(arguments);
        let child =
            command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side()).spawn().expect("it starts");
        let (keys, mut screen) = (ours.try_clone().expect("a descriptor"), ours);
        let seen = std::thread::spawn(move || {
            let (mut text, mut piece) = (Vec::new(), [0; 4096]);
            // The other side is gone when its last descriptor is closed.
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                text.extend(&piece[..count]);
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        drop(theirs);
        Self { child, keys, seen }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Its exit code, and all that was drawn.
    fn end(mut self) -> (Option<i32>, String) {
        let code = code(&mut self.child);
        (code, self.seen.join().expect("read to its end"))
    }
}

#[test]
fn on_a_terminal_keys_quit_it_and_the_terminal_is_given_back_while_the_sweep_goes_on() {
    let place = Place::new();
    let long = [&SWEEP[..], &["--set", "train.steps=3000", "--arm", "plain", "--seeds", "0"]].concat();
    let mut command = place.command(&long);
    let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let steps = || {
        let dir = std::fs::read_dir(place.at("here/tiny/runs")).ok()?;
        let csv = dir.flatten().map(|run| run.path().join("steps.csv")).next()?;
        std::fs::read_to_string(csv).ok().map(|text| text.lines().count())
    };
    wait_for("some steps", || steps().unwrap_or(0) > 20);
    let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
    for (keys, want) in [("jjkq", Some(0)), ("\x1b", Some(0)), ("\x03", Some(130))] {
        let mut screen = Screen::open(&place, &["watch", "here/tiny"]);
        std::thread::sleep(Duration::from_millis(1500));
        screen.press(keys);
        let (code, text) = screen.end();
        assert_eq!(code, want, "{keys:?}: {text}");
        assert!(text.contains(enter) && text.rfind(leave) > text.rfind(enter), "{keys:?}: {text:?}");
        // Blanks are not drawn.
        for part in ["program", "work?", "plain-s0", "running"] {
            assert!(text.contains(part), "no {part:?}: {text:?}");
        }
    }
    let screen = Screen::open(&place, &["watch", "here/tiny"]);
    std::thread::sleep(Duration::from_millis(1500));
    // SAFETY: a plain system call on a child that has not been waited for.
    unsafe { libc::kill(screen.child.id() as i32, libc::SIGTERM) };
    let (ended, text) = screen.end();
    assert!(ended == Some(143) && text.contains(leave), "{ended:?}: {text:?}");
    assert_eq!(code(&mut sweep), Some(0), "the sweep was not touched");
}
