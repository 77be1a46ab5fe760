//! Lines of progress, and the JSON files of a run.

use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;
use reslab_record::{Outcome, Progress, RunDir, Split, Timing, Weights};

use super::cases;

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![proptest::sample::select(vec![0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), any::<f64>()]
}

fn progress() -> impl Strategy<Value = Progress> {
    let n = any::<u64>;
    prop_oneof![
        (any::<String>(), n(), n(), n()).prop_map(|(id, steps, from_step, parameters)| Progress::Start {
            id,
            steps,
            from_step,
            parameters
        }),
        (n(), n(), vec(float(), 4)).prop_map(|(step, steps, f)| Progress::Step {
            step,
            steps,
            loss: f[0],
            lr: f[1],
            images_per_s: f[2],
            seconds_left: f[3],
        }),
        (n(), any::<bool>(), float(), float()).prop_map(|(step, val, top1, loss)| Progress::Eval {
            step,
            split: if val { Split::Val } else { Split::Test },
            weights: if val { Weights::Raw } else { Weights::Ema },
            top1,
            loss,
        }),
        n().prop_map(|step| Progress::Checkpoint { step }),
        any::<String>().prop_map(|text| Progress::Note { text }),
        proptest::option::of(n()).prop_map(|step| Progress::End {
            outcome: step.map_or(Outcome::Finished, |step| Outcome::NonFinite { step }),
        }),
        (float(), float(), n()).prop_map(|(seconds_per_step, eval_images_per_s, peak_memory_bytes)| {
            Progress::Probe { seconds_per_step, eval_images_per_s, peak_memory_bytes }
        }),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn every_event_survives_a_line_numbers_or_not(event in progress()) {
        let line = event.to_line();
        prop_assert!(!line.contains('\n'), "{}", line);
        let back = Progress::from_line(&line).map(|back| format!("{back:?}"));
        prop_assert_eq!(back, Some(format!("{event:?}")), "{}", line);
    }

    #[test]
    fn any_line_is_an_event_or_none(line in any::<String>(), event in progress(), at in any::<prop::sample::Index>()) {
        let _ = Progress::from_line(&line);
        let mut torn: Vec<char> = event.to_line().chars().collect();
        torn[at.index(line.len() + 1).min(event.to_line().chars().count() - 1)] = '"';
        let _ = Progress::from_line(&torn.iter().collect::<String>());
        let cut: String = event.to_line().chars().take(at.index(event.to_line().chars().count())).collect();
        prop_assert_eq!(Progress::from_line(&cut), None, "{}", cut);
    }

    #[test]
    fn any_bytes_in_the_files_of_a_run_are_an_error_that_names_the_file(bytes in vec(any::<u8>(), 0..60)) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path()).unwrap();
        for name in ["done.json", "failed.json", "env.json", "timing.json", "config.toml"] {
            fs::write(dir.path().join(name), &bytes).unwrap();
        }
        let errors = [
            run.read_done().err(), run.read_failed().err(), run.read_env().err(), run.read_timing().err(),
            run.read_config().err(),
        ];
        for (error, name) in errors.into_iter().zip(["done.json", "failed.json", "env.json", "timing.json", "config.toml"]) {
            prop_assert!(error.is_none_or(|e| e.to_string().contains(name)));
        }
    }

    #[test]
    fn times_come_back_whatever_a_clock_said(seconds in float(), images_per_s in float()) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path()).unwrap();
        let timing = Timing { seconds, images_per_s, peak_memory_bytes: 1, checkpoint_seconds: 0.0, device: "cpu".into(), threads: 1 };
        run.write_timing(&timing).unwrap();
        let back = run.read_timing().map(|timing| format!("{timing:?}")).map_err(|e| e.to_string());
        prop_assert_eq!(back, Ok(format!("{:?}", Some(timing))));
    }
}

/// A line is read while a run is at work, from its own process; it must not be able to exhaust the reader's stack.
#[test]
fn a_line_of_nothing_but_brackets_is_no_event() {
    for open in ["[", "{\"event\":", "{\"a\":["] {
        assert_eq!(Progress::from_line(&open.repeat(200_000)), None);
    }
}
