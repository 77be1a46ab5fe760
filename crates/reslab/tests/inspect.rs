//! `reslab inspect` from the outside: gammas of files from elsewhere, and of a run what its branches add.

mod support;

use support::Place;

/// A file that its authors' code wrote.
fn backbone(name: &str) -> String {
    format!("{}/../reslab-model/tests/golden/backbones/{name}/model.safetensors", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_file_from_elsewhere_shows_its_gammas_without_any_data() {
    let place = Place::new();
    for name in ["timm_dinov2_reg", "hf_dinov2", "hf_dinov3", "timm_dinov3_qkvb", "fb_dinov3", "timm_cait"] {
        let shown = place.call(&["inspect", &backbone(name)]).expect(0).out;
        assert!(shown.contains("gamma mean") && shown.contains("participation"), "{name}: {shown}");
        assert!(!shown.contains("cosine"), "nothing was looked at: {shown}");
        let joins = shown.lines().filter(|line| line.contains(" attention ") || line.contains(" mlp ")).count();
        assert!(joins >= 4 && joins.is_multiple_of(2), "{name}: {shown}");
    }
    let cait = place.call(&["inspect", &backbone("timm_cait")]).expect(0).out;
    assert!(cait.contains("class 0"), "{cait}");
}

#[test]
fn a_network_without_gamma_says_so() {
    let place = Place::new();
    let shown = place.call(&["inspect", &backbone("timm_vit")]).expect(0).out;
    assert!(shown.contains("no gamma in this file; --data NAME"), "{shown}");
}

#[test]
fn a_run_shows_what_its_branches_add_whatever_its_join_is() {
    let place = Place::new();
    for arm in ["plain", "layer_scale"] {
        place.call(&["run", "tiny.toml", "--arm", arm, "--seed", "0"]).expect(0);
        let run = place.run_dir("results/tiny", &format!("{arm}-s0"));
        let run = run.to_str().expect("UTF-8");
        let shown = place.call(&["inspect", run, "--data", "digits", "--images", "50", "--out", arm]).expect(0);
        assert!(shown.out.contains("cosine") && shown.out.contains("50 images of digits at 8 x 8"), "{}", shown.out);
        assert_eq!(shown.out.contains("Spearman"), arm == "layer_scale", "{}", shown.out);
        let csv = std::fs::read_to_string(place.at(arm).join("inspect.csv")).expect("written");
        assert_eq!(csv.lines().count(), 1 + 4, "{csv}");
        assert!(std::fs::read_to_string(place.at(arm).join("inspect.svg")).expect("written").contains("update ratio"));
        let ratio: f64 = csv
            .lines()
            .nth(1)
            .and_then(|row| row.split(',').nth(12))
            .and_then(|cell| cell.parse().ok())
            .expect("a ratio");
        assert!((0.0..10.0).contains(&ratio) && ratio > 0.0, "{csv}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_refused_with_the_next_step() {
    let place = Place::new();
    let heads = place.call(&["inspect", &backbone("timm_vit"), "--data", "nothing"]).expect(2);
    assert!(heads.err.contains("data.dataset") || heads.err.contains("--num-heads"), "{}", heads.err);
    std::fs::write(place.at("model.pth"), b"PK\x03\x04 a pickle").expect("writable");
    let pickle = place.call(&["inspect", "model.pth"]).expect(2);
    assert!(pickle.err.contains("safetensors"), "{}", pickle.err);
}
