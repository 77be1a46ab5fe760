//! Folders of runs that the plan no longer has.

use std::fs;

use reslab_record::RunLock;
use reslab_sweep::{delete, freeze, leftovers};

use crate::common::*;

#[test]
fn what_the_plan_lacks_is_listed_and_deleted_only_where_it_is_a_run_that_nobody_is_at() {
    let out = tempfile::tempdir().unwrap();
    let (old, new) = (tiny_plan(4, "[0]"), tiny_plan(1, "[0]"));
    freeze(&old, out.path()).unwrap();
    go(out.path(), &old, "echo > $DIR/config.toml; done_now", &How::default());
    assert!(leftovers(&old, out.path()).unwrap().is_empty());
    // Of the three that are left out, one is being computed; and a stranger's folder lies beside them.
    let busy = old.runs[3].dir(out.path());
    fs::remove_file(busy.join("done.json")).unwrap();
    let _lock = RunLock::acquire(&busy).unwrap();
    let stranger = out.path().join("runs/notes");
    fs::create_dir_all(&stranger).unwrap();
    fs::write(stranger.join("mine.txt"), "keep").unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), out.path().join("runs/link")).unwrap();

    let frozen = freeze(&new, out.path()).unwrap();
    let found = leftovers(&frozen.plan, out.path()).unwrap();
    let told: Vec<String> = found.iter().map(|l| l.state.to_string()).collect();
    assert_eq!(told, ["done", "done", "running: it is kept", "no run: it is kept"]);
    assert!(found[0].bytes > 0);
    assert!(old.runs.iter().all(|run| run.dir(out.path()).exists()), "listing deletes nothing");

    assert_eq!(delete(&found, out.path()).unwrap(), 2);
    let left: Vec<bool> = old.runs.iter().map(|run| run.dir(out.path()).exists()).collect();
    assert_eq!(left, [true, false, false, true]);
    assert!(stranger.join("mine.txt").exists() && outside.path().exists());
}
