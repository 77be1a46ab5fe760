//! That the network asks a strategy for everything its interface offers: gains, inner maps, stream, calibration.

use reslab_model::{InputShape, ModelConfig, Vit};
use reslab_residual::{
    Branch, BranchKind, Inner, InnerMap, Join, Network, OneStream, Pass, Site, Strategy, StrategyError, Stream, Weight,
};
use reslab_torch::{Parameter, Scope, stream};
use tch::{Device, Kind, Tensor};

const INPUT: InputShape = InputShape { channels: 1, height: 8, width: 12, classes: 4 };
const BATCH: i64 = 2;
const TOKENS: i64 = 6;
const WIDTH: i64 = 8;

/// What a test turns on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uses {
    Nothing,
    Gains,
    InnerMaps,
    TwoStreams,
}

#[derive(Debug, Clone, Copy)]
struct Outside(Uses);

impl Strategy for Outside {
    fn join(&self, _: &Scope, _: Site) -> Result<Box<dyn Join>, StrategyError> {
        Ok(Box::new(FirstStream))
    }
    fn init_gain(&self, weight: Weight) -> f64 {
        match weight {
            _ if self.0 != Uses::Gains => 1.0,
            Weight::Query(_) => 2.0,
            Weight::Value(site) => 4.0 + site.block as f64,
            Weight::Fc2(_) => 0.5,
            Weight::Head => 0.0,
            _ => 1.0,
        }
    }
    fn stream(&self, _: &Scope, width: i64) -> Result<Box<dyn Stream>, StrategyError> {
        Ok(if self.0 == Uses::TwoStreams { Box::new(TwoStreams) } else { Box::new(OneStream { width }) })
    }
    fn inner(&self, _: &Scope, site: Site) -> Result<Inner, StrategyError> {
        let map = |name| (self.0 == Uses::InnerMaps).then(|| Box::new(Noting { name, site }) as Box<dyn InnerMap>);
        Ok(Inner {
            queries: map("queries"),
            keys: map("keys"),
            values: map("values"),
            attended: map("attended"),
            preactivation: map("preactivation"),
            hidden: map("hidden"),
        })
    }
    fn calibrate(&self, network: &dyn Network, parameters: &[Parameter]) -> Result<(), StrategyError> {
        let mut pass = Pass::eval().observe(true);
        network.run(&mut pass);
        let sites = pass.take_telemetry().len();
        parameters.iter().for_each(|p| drop(p.tensor.shallow_clone().fill_(sites as f64)));
        Ok(())
    }
    fn constrain(&self, parameters: &[Parameter]) {
        parameters.iter().for_each(|p| drop(p.tensor.shallow_clone().fill_(-1.0)));
    }
}

/// `y = x + f(first D channels of x)` on those channels.
#[derive(Debug)]
struct FirstStream;

impl Join for FirstStream {
    fn update(&self, residual: &Tensor, branch: &dyn Branch, pass: &mut Pass) -> Tensor {
        let update = branch.call(&residual.narrow(2, 0, WIDTH), pass);
        update.constant_pad_nd([0, residual.size()[2] - WIDTH])
    }
}

/// Two copies, of which the joins use the first; closed by their difference.
#[derive(Debug)]
struct TwoStreams;

impl Stream for TwoStreams {
    fn width(&self) -> i64 {
        2 * WIDTH
    }
    fn open(&self, x: &Tensor, _: &mut Pass) -> Tensor {
        Tensor::cat(&[x, x], 2)
    }
    fn close(&self, stream: &Tensor, _: &mut Pass) -> Tensor {
        stream.narrow(2, 0, WIDTH) - stream.narrow(2, WIDTH, WIDTH)
    }
}

/// Leaves its tensor as it is, and a note in the pass's memory.
#[derive(Debug)]
struct Noting {
    name: &'static str,
    site: Site,
}

impl InnerMap for Noting {
    fn map(&self, x: &Tensor, input: &Tensor, pass: &mut Pass) -> Tensor {
        assert_eq!(input.size(), [BATCH, TOKENS, WIDTH]);
        pass.remember(format!("{}{}", self.name, self.site.index()), x.shallow_clone());
        x.shallow_clone()
    }
}

fn build(uses: Uses) -> (Vit, Vec<Parameter>) {
    let table = "kind = 'vit'\ndepth = 2\nwidth = 8\nnum_heads = 2\npatch_size = 4\nmlp_ratio = 2.0\n\
                 qkv_bias = true\npool = 'mean'\nnorm_eps = 1e-6\nnorm = 'strategy'\n";
    let config = ModelConfig::parse(&table.parse().unwrap()).unwrap();
    let scope = Scope::new(0, Kind::Double, Device::Cpu);
    let vit = Vit::new(&scope, &config, &Outside(uses), INPUT).unwrap();
    (vit, scope.parameters())
}

fn images() -> Tensor {
    let mut stream = stream(5, "images", &[]);
    let values: Vec<f64> = (0..BATCH * 96).map(|_| stream.normal()).collect();
    Tensor::from_slice(&values).view([BATCH, 1, 8, 12])
}

#[test]
fn gains_multiply_the_initial_value_and_change_nothing_else() {
    let (_, base) = build(Uses::Nothing);
    let (_, gained) = build(Uses::Gains);
    for (base, gained) in base.iter().zip(&gained) {
        let expected = match base.name.as_str() {
            name if name.ends_with("qkv.weight") => {
                let value = if name.contains("blocks.00") { 4.0 } else { 5.0 };
                let thirds = base.tensor.chunk(3, 0);
                Tensor::cat(&[&thirds[0] * 2.0, thirds[1].shallow_clone(), &thirds[2] * value], 0)
            }
            name if name.ends_with("fc2.weight") => &base.tensor * 0.5,
            "head.weight" => base.tensor.zeros_like(),
            _ => base.tensor.shallow_clone(),
        };
        assert!(gained.tensor.equal(&expected), "{}", base.name);
        assert!(gained.tensor.is_leaf() && gained.tensor.requires_grad(), "{}", base.name);
    }
}

#[test]
fn inner_maps_see_what_they_map_and_the_identity_changes_no_bit() {
    let (vit, _) = build(Uses::InnerMaps);
    let mut pass = Pass::eval();
    let logits = vit.forward(&images(), &mut pass);
    assert!(logits.equal(&build(Uses::Nothing).0.forward(&images(), &mut Pass::eval())));
    for block in 0..2 {
        let site = |kind| Site { block, depth: 2, kind, width: WIDTH, num_heads: 2, hidden: 2 * WIDTH }.index();
        let (attention, mlp) = (site(BranchKind::Attention), site(BranchKind::Mlp));
        let size = |name: String| pass.recall(&name).map(Tensor::size);
        for part in ["queries", "keys", "values"] {
            assert_eq!(size(format!("{part}{attention}")), Some(vec![BATCH, 2, TOKENS, WIDTH / 2]));
        }
        assert_eq!(size(format!("attended{attention}")), Some(vec![BATCH, TOKENS, WIDTH]));
        for part in ["preactivation", "hidden"] {
            assert_eq!(size(format!("{part}{mlp}")), Some(vec![BATCH, TOKENS, 2 * WIDTH]));
        }
        let (before, behind) = (pass.recall(&format!("preactivation{mlp}")), pass.recall(&format!("hidden{mlp}")));
        assert!(before.unwrap().gelu("none").equal(behind.unwrap()));
        assert_eq!((size(format!("hidden{attention}")), size(format!("values{mlp}"))), (None, None));
    }
}

#[test]
fn a_stream_is_opened_before_the_blocks_and_closed_after_them() {
    // The joins work on the first of two copies: their difference is what the blocks added, and a network whose
    // branches add nothing gives the head's answer to zeros.
    let (vit, parameters) = build(Uses::TwoStreams);
    let mut pass = Pass::eval().observe(true);
    let logits = vit.forward(&images(), &mut pass);
    assert_eq!(logits.size(), [BATCH, INPUT.classes]);
    assert!(logits.abs().max().double_value(&[]) > 1e-3, "control: the blocks add something");
    assert!(!pass.take_telemetry().is_empty());
    for p in parameters.iter().filter(|p| p.name.contains(".out.") || p.name.contains(".fc2.")) {
        tch::no_grad(|| drop(p.tensor.shallow_clone().zero_()));
    }
    let silent = vit.forward(&images(), &mut Pass::eval());
    assert_eq!(silent.abs().max().double_value(&[]), 0.0);
}

#[test]
fn calibration_runs_the_network_and_constraints_reach_every_parameter() {
    let (vit, parameters) = build(Uses::Nothing);
    let all = |value: f64| parameters.iter().all(|p| p.tensor.eq(value).all().int64_value(&[]) == 1);
    vit.constrain();
    assert!(all(-1.0));
    vit.calibrate(&images()).unwrap();
    assert!(!all(-1.0) && !all(0.0), "the observed values were counted and written");
    assert!(parameters.iter().all(|p| p.tensor.requires_grad()));
}
