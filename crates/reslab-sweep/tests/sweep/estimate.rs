//! The estimate: one probe per distinct network, then runs laid over slots.

use std::time::{Duration, Instant};

use reslab_sweep::{Estimate, Slot, Stop, Work, networks, probe};

use crate::common::*;

const PROBE: &str =
    r#"echo '{"event":"probe","seconds_per_step":0.5,"eval_images_per_s":100.0,"peak_memory_bytes":7}'"#;

fn slots(jobs: usize) -> [Slot; 1] {
    [Slot { device: "cpu".into(), jobs }]
}

#[test]
fn networks_are_distinct_where_the_cost_may_be() {
    let ls = "[[arm]]\nname = \"ls\"\nresidual = { kind = \"x\", init = 1.0 }\n";
    let files = Files::arms(&format!("{PLAIN}{ls}[grid]\noptim.lr = [1e-3, 1e-2]\n"));
    let names =
        |plan: &reslab_record::Plan| -> Vec<String> { networks(&plan.runs).iter().map(|r| r.arm.clone()).collect() };
    let plan = files.plan();
    assert_eq!(plan.runs.len(), 8);
    assert_eq!(names(&plan), ["plain[lr=1e-3]", "ls[init=1.0,lr=1e-3]"].map(|n| n.replace("init=1.0,", "")));
    let by_steps = files.plan_with(&["grid.train.steps=[1, 2]"], None).unwrap();
    assert_eq!(names(&by_steps).len(), 2, "steps are counted, not probed");
    for set in [
        "grid.model.depth=[1, 2]",
        "grid.train.batch=[1, 2]",
        "grid.data.dataset=[\"a\", \"b\"]",
        "grid.drop_path.rate=[0.1, 0.2]",
    ] {
        assert_eq!(names(&files.plan_with(&[set], None).unwrap()).len(), 4, "{set}");
    }
}

#[test]
fn an_estimate_is_steps_and_evaluations_over_the_slots() {
    let plan = tiny_plan(3, "[0, 1]");
    let out = tempfile::tempdir().unwrap();
    let mut told = 0;
    let probes = probe(&plan.runs, &slots(2), &|run, _| shell(out.path(), run, PROBE), &mut |_| told += 1, &NEVER);
    assert_eq!((probes.len(), told), (3, 3));
    let work = |_: &reslab_record::PlannedRun| Work { steps: 10, eval_images: 300 };
    let estimate = Estimate::new(&plan.runs, &slots(2), &probes, &work);
    assert_eq!(estimate.run_seconds, vec![Some(8.0); 6]);
    assert_eq!(estimate.seconds, Some(24.0));
    assert_eq!(estimate.to_string(), "6 runs, 2 at once: about 24 s");
    assert_eq!(estimate.beside(36.0).as_deref(), Some("estimated 24 s, took 36 s (1.50 x)"));
    assert_eq!(Estimate::new(&plan.runs, &slots(6), &probes, &work).seconds, Some(8.0));
    assert_eq!(Estimate::new(&[], &slots(2), &probes, &work).beside(1.0), None);
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "a probe leaves nothing behind");
}

#[test]
fn no_more_probes_run_at_once_than_there_are_runs() {
    let plan = tiny_plan(2, "[0]");
    let out = tempfile::tempdir().unwrap();
    let started = std::cell::Cell::new(0);
    let start = |run: &reslab_record::PlannedRun, _: &Slot| {
        started.set(started.get() + 1);
        shell(out.path(), run, PROBE)
    };
    let probes = probe(&plan.runs, &slots(1000), &start, &mut |_| {}, &NEVER);
    assert_eq!((started.get(), probes.len()), (2, 2));
    let work = |_: &reslab_record::PlannedRun| Work { steps: 10, eval_images: 300 };
    let estimate = Estimate::new(&plan.runs, &slots(1000), &probes, &work);
    assert_eq!(estimate.to_string(), "2 runs, 2 at once: about 8.0 s");
}

#[test]
fn a_probe_that_dies_is_told_and_leaves_the_estimate_open() {
    let plan = tiny_plan(2, "[0]");
    let script = format!("if [ $ARM = b ]; then echo 'CUDA out of memory' >&2; exit 1; fi; {PROBE}");
    let out = tempfile::tempdir().unwrap();
    let probes = probe(&plan.runs, &slots(2), &|run, _| shell(out.path(), run, &script), &mut |_| {}, &NEVER);
    let failed = probes.iter().find(|p| p.arm == "b").unwrap().result.clone().unwrap_err();
    assert_eq!(failed.class, reslab_record::FailureClass::OutOfMemory);
    let estimate = Estimate::new(&plan.runs, &slots(2), &probes, &|_| Work { steps: 1, eval_images: 0 });
    assert_eq!((estimate.seconds, &estimate.run_seconds[..]), (None, &[Some(0.5), None][..]));
    assert_eq!(estimate.to_string(), "2 runs, 2 at once: no estimate, since 1 of them could not be probed");
}

#[test]
fn all_places_are_busy_while_a_network_is_probed_and_the_slower_figure_counts() {
    let plan = tiny_plan(1, "[0, 1]");
    let out = tempfile::tempdir().unwrap();
    let dir = plan.runs[0].dir(out.path());
    std::fs::create_dir_all(&dir).unwrap();
    // Whoever comes first makes the folder and tells 0.5; the other tells 2.5.
    let script = format!("if mkdir $DIR/first 2>/dev/null; then {PROBE}; else {}; fi", PROBE.replace("0.5", "2.5"));
    let mut told = 0;
    let probes = probe(&plan.runs, &slots(2), &|run, _| shell(out.path(), run, &script), &mut |_| told += 1, &NEVER);
    assert_eq!((probes.len(), told), (1, 1), "told once");
    assert_eq!(probes[0].result.as_ref().unwrap().seconds_per_step, 2.5);
}

#[test]
fn a_stop_ends_probes_at_once() {
    let stop = Stop::new();
    let plan = tiny_plan(2, "[0]");
    let out = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let script = format!("if [ $ARM = a ]; then {PROBE}; else sleep 30; fi");
    let probes =
        probe(&plan.runs, &slots(2), &|run, _| shell(out.path(), run, &script), &mut |_| stop.request(2), &stop);
    assert_eq!(probes.len(), 1);
    assert!(began.elapsed() < Duration::from_secs(10));
}
