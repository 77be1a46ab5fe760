//! The messages of event files, as far as they are written here.
//!
//! Tags are those of TensorBoard 2.21: `tensorboard/compat/proto/{event,summary,histogram}.proto`,
//! `tensorboard/plugins/hparams/{plugin_data,api}.proto`, and `google/protobuf/struct.proto`. Declared by hand: the
//! build then needs no protoc.

use std::collections::BTreeMap;

/// What stands in one record of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Event {
    /// Seconds; of runs, those since they began, so that equal records give equal bytes.
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(oneof = "What", tags = "3, 5")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<Value>,
}

/// One figure under its tag.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<Metadata>,
    #[prost(oneof = "Figure", tags = "2, 5, 8")]
    pub figure: Option<Figure>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Figure {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

/// Bucket k holds `bucket[k]` between `bucket_limit[k - 1]` (or `min`) and `bucket_limit[k]`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Histogram {
    #[prost(double, tag = "1")]
    pub min: f64,
    #[prost(double, tag = "2")]
    pub max: f64,
    #[prost(double, tag = "3")]
    pub num: f64,
    #[prost(double, tag = "4")]
    pub sum: f64,
    #[prost(double, tag = "5")]
    pub sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    pub bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub bucket: Vec<f64>,
}

/// Only ever empty: a value that is all metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Tensor {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub size: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

/// What the plugin of hyper-parameters reads.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HParams {
    #[prost(int32, tag = "1")]
    pub version: i32,
    #[prost(oneof = "HParamsData", tags = "2, 3, 4")]
    pub data: Option<HParamsData>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum HParamsData {
    #[prost(message, tag = "2")]
    Experiment(Experiment),
    #[prost(message, tag = "3")]
    Start(SessionStart),
    #[prost(message, tag = "4")]
    End(SessionEnd),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Experiment {
    #[prost(string, tag = "1")]
    pub description: String,
    #[prost(message, repeated, tag = "4")]
    pub hparam_infos: Vec<HParamInfo>,
    #[prost(message, repeated, tag = "5")]
    pub metric_infos: Vec<MetricInfo>,
    #[prost(string, tag = "6")]
    pub name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HParamInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    /// 1: text, 3: number.
    #[prost(int32, tag = "4")]
    pub kind: i32,
    #[prost(message, optional, tag = "5")]
    pub domain_discrete: Option<ListValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    pub name: Option<MetricName>,
    #[prost(string, tag = "3")]
    pub display_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricName {
    #[prost(string, tag = "2")]
    pub tag: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SessionStart {
    #[prost(btree_map = "string, message", tag = "1")]
    pub hparams: BTreeMap<String, AnyValue>,
    #[prost(string, tag = "4")]
    pub group_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SessionEnd {
    /// 1: success, 2: failure.
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(double, tag = "2")]
    pub end_time_secs: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Kind", tags = "2, 3")]
    pub kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Kind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
}

impl Event {
    /// The first event of a file.
    pub(crate) fn version() -> Self {
        Self { wall_time: 0.0, step: 0, what: Some(What::FileVersion("brain.Event:2".to_owned())) }
    }

    pub(crate) fn new(wall_time: f64, step: u64, value: Vec<Value>) -> Self {
        Self { wall_time, step: i64::try_from(step).unwrap_or(i64::MAX), what: Some(What::Summary(Summary { value })) }
    }
}

impl Value {
    pub(crate) fn new(tag: impl Into<String>, figure: Figure) -> Self {
        Self { tag: tag.into(), metadata: None, figure: Some(figure) }
    }

    pub(crate) fn scalar(tag: impl Into<String>, x: f64) -> Self {
        Self::new(tag, Figure::Scalar(x as f32))
    }
}
