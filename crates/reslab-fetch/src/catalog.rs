//! What is published: names, sizes, sha256 and addresses of every data set that is not embedded.
//!
//! Sums of downloads are those of the official addresses, as also pinned by TensorFlow Datasets and others;
//! sums of contents are of the uncompressed files, so that a copy compressed by somebody else (Debian) checks too.

/// One file that a loader reads, as it is when uncompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// File name without `.gz`.
    pub name: &'static str,
    /// Size of the uncompressed file.
    pub bytes: u64,
    /// sha256 of the uncompressed file, lower-case hexadecimal.
    pub sha256: &'static str,
}

/// How a download holds the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// One gzip-compressed file; it is kept compressed.
    Gzip,
    /// A gzip-compressed tar archive of all files; they are taken out and the archive is not kept.
    TarGz,
}

/// One thing to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// File name of the download.
    pub name: &'static str,
    /// Addresses, tried in this order.
    pub urls: &'static [&'static str],
    /// Size of the download.
    pub bytes: u64,
    /// sha256 of the download, lower-case hexadecimal.
    pub sha256: &'static str,
    /// What is inside.
    pub packing: Packing,
}

/// All that is known about the files of one data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetFiles {
    /// The name in `data.dataset`.
    pub name: &'static str,
    /// The page that describes it.
    pub home: &'static str,
    /// Folders below a search folder that may hold the files: our own name first, then those of other programs.
    pub folders: &'static [&'static str],
    /// The Debian package that has it.
    pub debian: Option<&'static str>,
    /// The files that a loader reads: training first, then test; images before labels.
    pub files: &'static [DataFile],
    /// Where they come from.
    pub downloads: &'static [Download],
}

/// The data set of this name; `digits` is embedded in the program and not listed here.
pub fn dataset(name: &str) -> Option<&'static DatasetFiles> {
    DATASETS.iter().find(|dataset| dataset.name == name)
}

const fn file(name: &'static str, bytes: u64, sha256: &'static str) -> DataFile {
    DataFile { name, bytes, sha256 }
}

const fn gzip(name: &'static str, bytes: u64, sha256: &'static str, urls: &'static [&'static str]) -> Download {
    Download { name, urls, bytes, sha256, packing: Packing::Gzip }
}

const fn archive(name: &'static str, bytes: u64, sha256: &'static str, urls: &'static [&'static str]) -> Download {
    Download { name, urls, bytes, sha256, packing: Packing::TarGz }
}

/// The four gzip files of a data set in MNIST's layout, at the same two addresses.
macro_rules! idx_downloads {
    ($first:literal, $second:literal, $([$name:literal, $bytes:literal, $sha256:literal],)*) => {
        &[$(gzip(concat!($name, ".gz"), $bytes, $sha256,
            &[concat!($first, $name, ".gz"), concat!($second, $name, ".gz")])),*]
    };
}

/// Every data set whose files are looked for or fetched.
pub static DATASETS: &[DatasetFiles] = &[
    DatasetFiles {
        name: "mnist",
        home: "https://yann.lecun.com/exdb/mnist/",
        folders: &["mnist", "MNIST/raw"],
        debian: None,
        files: &[
            file(
                "train-images-idx3-ubyte",
                47_040_016,
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            file("train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            file(
                "t10k-images-idx3-ubyte",
                7_840_016,
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            file("t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        ],
        // The author's own server has asked for a password for years; these two are the mirrors that TensorFlow and
        // PyTorch use.
        downloads: idx_downloads![
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ["train-images-idx3-ubyte", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"],
            ["train-labels-idx1-ubyte", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"],
            ["t10k-images-idx3-ubyte", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"],
            ["t10k-labels-idx1-ubyte", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"],
        ],
    },
    DatasetFiles {
        name: "fashion-mnist",
        home: "https://github.com/zalandoresearch/fashion-mnist",
        folders: &["fashion-mnist", "FashionMNIST/raw"],
        debian: Some("dataset-fashion-mnist"),
        files: &[
            file(
                "train-images-idx3-ubyte",
                47_040_016,
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            ),
            file("train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
            file(
                "t10k-images-idx3-ubyte",
                7_840_016,
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            ),
            file("t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
        ],
        downloads: idx_downloads![
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            ["train-images-idx3-ubyte", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"],
            ["train-labels-idx1-ubyte", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"],
            ["t10k-images-idx3-ubyte", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"],
            ["t10k-labels-idx1-ubyte", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"],
        ],
    },
    DatasetFiles {
        name: "cifar10",
        home: "https://www.cs.toronto.edu/~kriz/cifar.html",
        folders: &["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"],
        debian: None,
        files: &[
            file("data_batch_1.bin", 30_730_000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            file("data_batch_2.bin", 30_730_000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            file("data_batch_3.bin", 30_730_000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            file("data_batch_4.bin", 30_730_000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            file("data_batch_5.bin", 30_730_000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            file("test_batch.bin", 30_730_000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
        ],
        downloads: &[archive(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            &["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"],
        )],
    },
    DatasetFiles {
        name: "cifar100",
        home: "https://www.cs.toronto.edu/~kriz/cifar.html",
        folders: &["cifar100", "cifar100/cifar-100-binary", "cifar-100-binary"],
        debian: None,
        files: &[
            file("train.bin", 153_700_000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
            file("test.bin", 30_740_000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
        ],
        downloads: &[archive(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            &["https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"],
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_is_sixty_four_lower_case_hexadecimal_digits_and_occurs_once() {
        let mut sums: Vec<&str> = Vec::new();
        for dataset in DATASETS {
            sums.extend(dataset.files.iter().map(|file| file.sha256));
            sums.extend(dataset.downloads.iter().map(|download| download.sha256));
        }
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        for sum in &sums {
            assert!(sum.len() == 64 && sum.chars().all(is_hex), "{sum}");
        }
        let count = sums.len();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), count, "a sum was copied twice");
    }

    #[test]
    fn gzip_downloads_are_named_after_the_files_and_addresses_end_in_their_name() {
        for dataset in DATASETS {
            assert_eq!(dataset.folders[0], dataset.name);
            for download in dataset.downloads {
                for url in download.urls {
                    assert!(url.ends_with(&format!("/{}", download.name)), "{url}");
                }
            }
            if dataset.downloads[0].packing == Packing::Gzip {
                let names: Vec<String> = dataset.files.iter().map(|f| format!("{}.gz", f.name)).collect();
                let downloads: Vec<&str> = dataset.downloads.iter().map(|d| d.name).collect();
                assert_eq!(names, downloads);
            }
        }
        assert!(dataset("fashion-mnist").is_some() && dataset("digits").is_none());
    }

    #[test]
    fn cifar_sizes_are_whole_records() {
        let bytes = |name: &str| dataset(name).expect(name).files.iter().map(|f| f.bytes).sum();
        let (ten, hundred): (u64, u64) = (bytes("cifar10"), bytes("cifar100"));
        assert_eq!((ten, hundred), (60_000 * 3073, 60_000 * 3074));
    }
}
