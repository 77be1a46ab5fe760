//! The sweep files that come with the program expand, on either device kind.

use std::path::{Path, PathBuf};

use reslab_record::Plan;
use reslab_sweep::{Facts, Overrides, expand, load};

use crate::common::*;

fn configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")
}

fn plan(path: &Path, device_kind: &str) -> Plan {
    let file = load(path, &Overrides::default(), device_kind).unwrap_or_else(|e| panic!("{e}"));
    let any = |_: &mut toml::Table| Ok(Facts { parameters: 1, flops_per_image: 1.0 });
    expand(&file, &any, &target()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_file_of_configs_expands() {
    let mut count = 0;
    for entry in std::fs::read_dir(configs()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            for device_kind in ["cpu", "cuda"] {
                assert!(!plan(&path, device_kind).runs.is_empty(), "{}", path.display());
            }
            count += 1;
        }
    }
    assert!(count >= 3, "{count}");
}

#[test]
fn depth48_is_eight_arms_and_lr_grid_five_arms_at_three_rates() {
    let depth48 = plan(&configs().join("depth48.toml"), "cuda");
    assert_eq!((arms(&depth48).len(), depth48.runs.len()), (8, 24));
    assert!(arms(&depth48).contains(&"layer_scale[init=1e-5]".to_owned()));
    let lr_grid = plan(&configs().join("lr_grid.toml"), "cpu");
    assert_eq!((arms(&lr_grid).len(), lr_grid.runs.len()), (15, 45));
    assert_eq!((lr_grid.profile.as_deref(), &lr_grid.select[..]), (Some("cpu"), &["optim.lr".to_owned()][..]));
}
