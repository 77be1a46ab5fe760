//! What loading a checkpoint allows, refuses and reports; that it computes the right thing is tested in parity.rs.

use std::path::{Path, PathBuf};

use reslab_model::{InputShape, LoadError, LoadOptions, LoadReport, ModelConfig, Resize, Resized, Vit};
use reslab_pretrained::Pretrained;
use reslab_residual::Registry;
use reslab_torch::{Scope, set_threads};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 3, height: 16, width: 16, classes: 5 };
const PLAIN: &str = "kind = 'plain'";
const GAMMA: &str = "kind = 'layer_scale'\ninit = 1.0";
const STRICT: LoadOptions = LoadOptions { resize: None, replace_head: false, new_joins: false, loose_gammas: false };
const NEW_HEAD: LoadOptions = LoadOptions { replace_head: true, ..STRICT };

fn golden(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/backbones").join(case)
}

fn open(case: &str) -> Pretrained {
    Pretrained::open(&golden(case)).unwrap()
}

/// A network of the file's shape; keys of `changes` replace those of its table.
fn network(file: &Pretrained, changes: &str, residual: &str, input: InputShape, kind: Kind) -> Vit {
    set_threads(1);
    let mut table = file.architecture().model_table();
    table.entry("num_heads").or_insert(toml::Value::Integer(3));
    table.extend(changes.parse::<toml::Table>().unwrap());
    let config = ModelConfig::parse(&table).unwrap();
    let strategy = Registry::builtin().parse(&residual.parse().unwrap()).unwrap();
    Vit::new(&Scope::new(0, kind, Device::Cpu), &config, &*strategy, input).unwrap()
}

fn values(vit: &Vit) -> Vec<Tensor> {
    vit.parameters().iter().map(|p| p.tensor.copy()).collect()
}

fn get(vit: &Vit, name: &str) -> Tensor {
    vit.parameters().iter().find(|p| p.name == name).unwrap().tensor.detach()
}

/// The report of a load that fails, after which the network must be as it was.
fn refused(vit: &Vit, file: &Pretrained, options: &LoadOptions) -> LoadReport {
    let before = values(vit);
    let error = vit.load(file, options).unwrap_err();
    assert!(values(vit).iter().zip(&before).all(|(now, before)| now.equal(before)), "something was written");
    match error {
        LoadError::Unfit(report) => *report,
        other => panic!("{other}"),
    }
}

#[test]
fn a_head_is_replaced_only_where_the_options_say_so_and_is_reported() {
    let file = open("timm_vit");
    let vit = network(&file, "", PLAIN, InputShape { classes: 7, ..INPUT }, Kind::Float);
    let report = refused(&vit, &file, &STRICT);
    assert_eq!(report.shapes.len(), 2);
    assert_eq!(report.shapes[0], "head.weight is [5, 24] in the file and [7, 24] in the network");
    let head = get(&vit, "head.weight").copy();
    let loaded = vit.load(&file, &NEW_HEAD).unwrap();
    assert!(get(&vit, "head.weight").equal(&head));
    assert_eq!((loaded.left_out, loaded.drawn.len()), (vec!["head.weight".to_owned(), "head.bias".to_owned()], 2));
    // A file without a head: the network's own is unfilled, until it may be.
    let file = open("timm_dinov2");
    let vit = network(&file, "", GAMMA, INPUT, Kind::Float);
    assert_eq!(refused(&vit, &file, &STRICT).unfilled, ["head.weight", "head.bias"]);
    let loaded = vit.load(&file, &NEW_HEAD).unwrap();
    assert_eq!((loaded.left_out.len(), loaded.filled.len() + 2), (0, vit.parameters().len()));
    assert!(loaded.to_string().contains("newly drawn: head.weight, head.bias"), "{loaded}");
}

#[test]
fn gammas_that_the_network_has_no_place_for_are_named_where_the_caller_folds_them() {
    let file = open("timm_deit3");
    let vit = network(&file, "", PLAIN, INPUT, Kind::Float);
    let loaded = vit.load(&file, &LoadOptions { loose_gammas: true, ..STRICT }).unwrap();
    assert_eq!(loaded.loose.len(), 4);
    assert_eq!(loaded.loose[0], "blocks.00.attention.join.gamma");
    let mapped = file.mapped().iter().find(|mapped| mapped.name == loaded.loose[0]).unwrap();
    let gamma = reslab_model::read_tensor(mapped).unwrap();
    let with = network(&file, "", GAMMA, INPUT, Kind::Float);
    with.load(&file, &STRICT).unwrap();
    assert!(gamma.equal(&get(&with, &loaded.loose[0])));
}

#[test]
fn a_gamma_that_the_network_has_no_place_for_is_refused_with_its_keys() {
    let file = open("timm_deit3");
    let report = refused(&network(&file, "", PLAIN, INPUT, Kind::Float), &file, &STRICT);
    assert_eq!((report.unfilled.len(), report.shapes.len(), report.unused.len()), (0, 0, 4));
    assert_eq!(report.unused[0], "blocks.00.attention.join.gamma (blocks.0.ls1.gamma)");
    assert!(report.to_string().contains("tensors of the file that the network has no place for (4)"), "{report}");
}

#[test]
fn what_a_strategy_adds_is_new_only_where_the_options_say_so() {
    let file = open("timm_vit");
    let gate = Registry::builtin().get("input_gate").unwrap().example;
    let vit = network(&file, "", gate, INPUT, Kind::Float);
    let report = refused(&vit, &file, &STRICT);
    assert!(!report.unfilled.is_empty() && report.unfilled.iter().all(|name| name.contains(".join.")), "{report}");
    let loaded = vit.load(&file, &LoadOptions { new_joins: true, ..STRICT }).unwrap();
    assert_eq!(loaded.drawn, report.unfilled);
    // Norms are no joins: a network with more of them computes something else from the first block on.
    let sandwich = network(&file, "norm = 'both'", PLAIN, INPUT, Kind::Float);
    let report = refused(&sandwich, &file, &LoadOptions { new_joins: true, ..STRICT });
    assert!(report.unfilled.iter().all(|name| name.contains("out_norm")) && report.unfilled.len() == 8, "{report}");
}

#[test]
fn another_network_is_refused_with_both_sides() {
    let file = open("hf_dinov2");
    let report = refused(&network(&file, "depth = 3", GAMMA, INPUT, Kind::Float), &file, &NEW_HEAD);
    assert!(report.unfilled.iter().all(|name| name.starts_with("blocks.02.")) && !report.unfilled.is_empty());
    let report = refused(&network(&file, "depth = 1", GAMMA, INPUT, Kind::Float), &file, &NEW_HEAD);
    assert!(report.unused.iter().all(|name| name.starts_with("blocks.01.")) && !report.unused.is_empty());
    let report = refused(&network(&file, "mlp = 'swiglu'", GAMMA, INPUT, Kind::Float), &file, &NEW_HEAD);
    assert!(report.unfilled.iter().all(|name| name.contains("mlp.gate.")), "{report}");
    let report = refused(&network(&file, "mlp_ratio = 3.0", GAMMA, INPUT, Kind::Float), &file, &NEW_HEAD);
    assert_eq!(report.shapes.len(), 6, "{report}");
    let grey = InputShape { channels: 1, ..INPUT };
    let report = refused(&network(&file, "", GAMMA, grey, Kind::Float), &file, &NEW_HEAD);
    assert_eq!(report.shapes, ["patch_embed.weight is [24, 48] in the file and [24, 16] in the network"]);
}

#[test]
fn what_has_no_parameters_must_agree_or_is_reported() {
    let file = open("hf_dinov3");
    for (changes, says) in [
        ("rope_base = 10000.0", "has rope_base = 100, and model.rope_base is 10000"),
        ("position = 'patches'", "has position = \"rope\", and model.position is another"),
        ("position = 'none'", "has position = \"rope\", and model.position is another"),
    ] {
        let mut table: toml::Table = changes.parse().unwrap();
        let other = table.contains_key("position");
        table.extend(file.architecture().model_table().into_iter().filter(|(key, _)| {
            !changes.starts_with(key.as_str()) && !(other && (key == "position" || key == "rope_base"))
        }));
        let strategy = Registry::builtin().parse(&GAMMA.parse().unwrap()).unwrap();
        let config = ModelConfig::parse(&table).unwrap();
        let vit = Vit::new(&Scope::new(0, Kind::Float, Device::Cpu), &config, &*strategy, INPUT).unwrap();
        let error = vit.load(&file, &NEW_HEAD).unwrap_err().to_string();
        assert!(error.ends_with(says), "{error}");
    }
    let file = open("hf_dinov2");
    let vit = network(&file, "num_heads = 2\nnorm_eps = 1e-5", GAMMA, INPUT, Kind::Float);
    let loaded = vit.load(&file, &NEW_HEAD).unwrap();
    assert_eq!(
        loaded.differences,
        ["num_heads is 2; by the file or its layout 3", "norm_eps is 0.00001; by the file or its layout 0.000001"]
    );
    let vit = network(&file, "", GAMMA, INPUT, Kind::Float);
    assert!(vit.load(&file, &NEW_HEAD).unwrap().differences.is_empty());
}

#[test]
fn positions_of_another_grid_are_resized_even_where_there_are_as_many() {
    let file = open("timm_dinov2");
    for (height, width, resized) in [(16, 16, false), (8, 32, true), (20, 12, true)] {
        let input = InputShape { height, width, ..INPUT };
        let vit = network(&file, "", GAMMA, input, Kind::Float);
        let loaded = vit.load(&file, &NEW_HEAD).unwrap();
        assert_eq!(
            loaded.resized,
            resized.then_some(Resized { by: Resize::Timm, from: [4, 4], to: [height / 4, width / 4] })
        );
    }
}

#[test]
fn a_parameter_keeps_its_kind_whatever_the_files_is() {
    let folder = tempfile::tempdir().unwrap();
    let own = Tensor::read_safetensors(golden("timm_vit").join("model.safetensors")).unwrap();
    for (of_file, name) in [(Kind::Half, "f16"), (Kind::BFloat16, "bf16"), (Kind::Double, "f64"), (Kind::Float, "f32")]
    {
        let path = folder.path().join(format!("{name}.safetensors"));
        let tensors: Vec<(String, Tensor)> = own.iter().map(|(key, t)| (key.clone(), t.to_kind(of_file))).collect();
        Tensor::write_safetensors(&tensors, &path).unwrap();
        let file = Pretrained::open(&path).unwrap();
        for kind in [Kind::Float, Kind::Double] {
            let vit = network(&file, "", PLAIN, INPUT, kind);
            vit.load(&file, &STRICT).unwrap();
            for (ours, theirs) in [("blocks.01.mlp.fc1.weight", "blocks.1.mlp.fc1.weight"), ("position", "pos_embed")] {
                let found = get(&vit, ours);
                let expected = &tensors.iter().find(|(key, _)| key == theirs).unwrap().1;
                assert_eq!(found.kind(), kind, "{name}");
                assert!(found.equal(&expected.to_kind(kind)), "{name}: {ours}");
            }
        }
    }
}

/// Pages that are no file's, in bytes, sampled while something runs.
#[cfg(target_os = "linux")]
mod memory {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    pub fn anonymous() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    pub fn most_while(run: impl FnOnce()) -> u64 {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut most = 0;
                while !done.load(Relaxed) {
                    most = most.max(anonymous());
                }
                most
            });
            run();
            done.store(true, Relaxed);
            watch.join().unwrap()
        })
    }
}

const ALONE: &str = "RESLAB_TEST_MEMORY_OF_LOADING";

/// In a process of its own, where no other test allocates: a file of 100 MB, in half precision, whose largest tensor is
/// 9 MB. Reading it as a whole first (the control) takes its size.
#[cfg(target_os = "linux")]
#[test]
fn loading_takes_the_largest_tensors_memory_and_not_the_files() {
    let name = "loading_takes_the_largest_tensors_memory_and_not_the_files";
    if std::env::var_os(ALONE).is_none() {
        let mut other = std::process::Command::new(std::env::current_exe().unwrap());
        let output = other.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (width, hidden, depth) = (768, 3072, 7);
    let mut tensors = Vec::new();
    let mut add = |key: String, shape: &[i64]| {
        tensors.push((key, Tensor::zeros(shape, (Kind::Half, Device::Cpu))));
    };
    add("cls_token".to_owned(), &[1, 1, width]);
    add("pos_embed".to_owned(), &[1, 17, width]);
    add("patch_embed.proj.weight".to_owned(), &[width, 3, 4, 4]);
    add("patch_embed.proj.bias".to_owned(), &[width]);
    for block in 0..depth {
        for (key, shape) in [
            ("norm1.weight", vec![width]),
            ("norm1.bias", vec![width]),
            ("attn.qkv.weight", vec![3 * width, width]),
            ("attn.qkv.bias", vec![3 * width]),
            ("attn.proj.weight", vec![width, width]),
            ("attn.proj.bias", vec![width]),
            ("norm2.weight", vec![width]),
            ("norm2.bias", vec![width]),
            ("mlp.fc1.weight", vec![hidden, width]),
            ("mlp.fc1.bias", vec![hidden]),
            ("mlp.fc2.weight", vec![width, hidden]),
            ("mlp.fc2.bias", vec![width]),
        ] {
            add(format!("blocks.{block}.{key}"), &shape);
        }
    }
    add("norm.weight".to_owned(), &[width]);
    add("norm.bias".to_owned(), &[width]);
    Tensor::write_safetensors(&tensors, &path).unwrap();
    drop(tensors);
    let size = std::fs::metadata(&path).unwrap().len();
    let largest = 4 * (hidden * width) as u64;
    let file = Pretrained::open(&path).unwrap();
    let vit = network(&file, "num_heads = 12", PLAIN, INPUT, Kind::Float);
    drop(file);
    let before = memory::anonymous();
    let most = memory::most_while(|| {
        let file = Pretrained::open(&path).unwrap();
        vit.load(&file, &NEW_HEAD).unwrap();
    });
    let more = most.saturating_sub(before);
    println!("a file of {size} bytes: {more} more while it was loaded, the largest tensor being {largest} in f32");
    assert!(more < largest + size / 10, "{more} of {size}");
    let before = memory::anonymous();
    // Measured while it is held: a sampler may get no turn on a busy machine.
    let whole = std::fs::read(&path).unwrap();
    let control = memory::anonymous().saturating_sub(before);
    drop(whole);
    assert!(control > size / 2, "control: {control} of {size}");
}
