//! Every strategy against an independent PyTorch implementation in double precision: tests/golden/zoo/*.py wrote the
//! files that are read here. Logits, loss and all gradients must agree; another strategy with the same weights must not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reslab_model::{InputShape, ModelConfig, Vit};
use reslab_residual::{Pass, Registry};
use reslab_torch::{Parameter, Scope, foreach, set_threads};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 2, height: 8, width: 12, classes: 5 };
/// Logits are of size 1 or so, and 3 blocks lose a few of 16 digits. The controls are off by far more.
const TOLERANCE: f64 = 1e-11;
const CONTROL: f64 = 1e-4;

/// One file: a strategy with its weights, and what PyTorch computes with them.
struct Golden {
    name: String,
    tensors: BTreeMap<String, Tensor>,
}

impl Golden {
    fn all() -> Vec<Golden> {
        set_threads(1);
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/zoo");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "safetensors")).collect();
        files.sort();
        let read = |path: &PathBuf| Golden {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            tensors: Tensor::read_safetensors(path).unwrap().into_iter().collect(),
        };
        files.iter().map(read).collect()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(Vec::<u8>::try_from(&self.tensors[&format!("text/{name}")]).unwrap()).unwrap()
    }

    /// The network of a table `[residual]` with the golden weights; weights that only one of both has are left as they are.
    fn network(&self, residual: &str) -> (Vit, Vec<Parameter>) {
        let strategy = Registry::builtin().parse(&residual.parse().unwrap()).unwrap();
        let norm = self.text("norm");
        let table = format!(
            "kind = 'vit'\ndepth = 3\nwidth = 12\nnum_heads = 3\npatch_size = 4\nmlp_ratio = 2.0\nqkv_bias = true\n\
             pool = 'class'\nnorm_eps = 1e-6\nnorm = '{norm}'\n"
        );
        let config = ModelConfig::parse(&table.parse().unwrap()).unwrap();
        let scope = Scope::new(0, Kind::Double, Device::Cpu);
        let vit = Vit::new(&scope, &config, &*strategy, INPUT).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let parameters = scope.parameters();
        for parameter in &parameters {
            if let Some(value) = self.tensors.get(&format!("weight/{}", parameter.name))
                && value.size() == parameter.tensor.size()
            {
                tch::no_grad(|| parameter.tensor.shallow_clone().copy_(value));
            }
        }
        (vit, parameters)
    }

    fn off(&self, name: &str, found: &Tensor) -> f64 {
        let expected = &self.tensors[name];
        assert_eq!(found.size(), expected.size(), "{}: {name}", self.name);
        (found - expected).abs().max().double_value(&[])
    }
}

#[test]
fn logits_and_gradients_are_those_of_pytorch() {
    for golden in Golden::all() {
        let (vit, parameters) = golden.network(&golden.text("residual"));
        let ours: BTreeSet<String> = parameters.iter().map(|p| p.name.clone()).collect();
        let theirs = golden.tensors.keys().filter_map(|name| name.strip_prefix("weight/").map(str::to_owned));
        assert_eq!(ours, theirs.collect(), "{}: the same parameters", golden.name);
        let logits = vit.forward(&golden.tensors["images"], &mut Pass::eval());
        let off = golden.off("logits", &logits);
        assert!(off < TOLERANCE, "{}: logits are off by {off}", golden.name);
        // Not `cross_entropy_for_logits`, which goes through float32.
        let labels = &golden.tensors["labels"];
        let loss = logits.cross_entropy_loss(labels, None::<Tensor>, tch::Reduction::Mean, -100, 0.0);
        assert!(golden.off("loss", &loss) < TOLERANCE, "{}: loss", golden.name);
        loss.backward();
        for (parameter, grad) in parameters.iter().zip(foreach::grads(&parameters)) {
            let name = format!("grad/{}", parameter.name);
            let (off, size) = (golden.off(&name, &grad), grad.abs().max().double_value(&[]));
            assert!(off < TOLERANCE * (1.0 + size), "{}: {name} is off by {off} of {size}", golden.name);
        }
    }
}

#[test]
fn another_strategy_with_the_same_weights_is_far_away() {
    for golden in Golden::all() {
        let (vit, _) = golden.network(&golden.text("control"));
        let off = golden.off("logits", &vit.forward(&golden.tensors["images"], &mut Pass::eval()));
        assert!(off > CONTROL, "{}: the control is off by {off} only", golden.name);
    }
}

#[test]
fn every_strategy_has_a_golden_file() {
    let files: BTreeSet<String> =
        Golden::all().iter().map(|golden| golden.name.split('.').next().unwrap_or_default().to_owned()).collect();
    let without: Vec<&str> = Registry::builtin().names().filter(|name| !files.contains(*name)).collect();
    assert!(without.is_empty(), "no tests/golden/zoo/NAME*.safetensors for {without:?}");
}
