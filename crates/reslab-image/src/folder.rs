//! A folder of images as ImageNet has it: `train/CLASS/IMAGE` and `val/CLASS/IMAGE`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Names of images end in one of these, in upper or lower case.
pub const EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];
/// What a folder must hold.
const LAYOUT: &str =
    "a folder with train/ and val/, each with a folder of images (jpg, jpeg, png, webp) for each class";

/// The images of a folder, by name; none of them was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
    classes: Vec<OsString>,
    train: Vec<File>,
    val: Vec<File>,
    others: Vec<PathBuf>,
}

/// An image of a [`Folder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its class: a place in the sorted names of the classes.
    pub class: u16,
    /// Its name, without the folders that it is in.
    name: OsString,
    /// Its size.
    bytes: u64,
}

/// One of the two parts of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `train/`.
    Train,
    /// `val/`.
    Val,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
        }
    }
}

/// A folder that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Something is missing, or too much.
    #[error("{root} must be {LAYOUT}, but {problem}")]
    Layout {
        /// The folder that was named.
        root: String,
        /// What is not so, and where.
        problem: String,
    },
    /// The operating system's words.
    #[error("{path}: can't be listed: {source}")]
    Io {
        /// The folder.
        path: String,
        /// Why.
        source: io::Error,
    },
}

impl Folder {
    /// Lists a folder: classes and images sorted by name. Hidden files and folders are no classes and no images.
    ///
    /// # Errors
    /// When a part is missing, a class has no image, or the two parts have not the same classes.
    pub fn list(root: &Path) -> Result<Self, FolderError> {
        let refuse = |problem: String| FolderError::Layout { root: root.display().to_string(), problem };
        if !root.exists() {
            return Err(refuse("it does not exist".to_owned()));
        }
        let mut others = Vec::new();
        let [train, val] = [Part::Train, Part::Val].map(|part| {
            let path = root.join(part.name());
            if !path.is_dir() {
                return Err(refuse(format!("it has no folder {}/", part.name())));
            }
            classes(&path, &mut others)
        });
        let (train, val) = (train?, val?);
        if train.is_empty() {
            return Err(refuse("train/ has no folder".to_owned()));
        }
        if train.len() > usize::from(u16::MAX) {
            return Err(refuse(format!("train/ has {} folders, more than {}", train.len(), u16::MAX)));
        }
        let lacking = |of: &[OsString], among: &[OsString]| of.iter().find(|class| !among.contains(class)).cloned();
        if let Some(class) = lacking(&train, &val) {
            return Err(refuse(format!("val/ has no folder {}, which train/ has", class.display())));
        }
        if let Some(class) = lacking(&val, &train) {
            return Err(refuse(format!("val/ has a folder {}, which train/ has not", class.display())));
        }
        let mut files = |part: Part| -> Result<Vec<File>, FolderError> {
            let mut files = Vec::new();
            for (class, name) in (0..).zip(&train) {
                let path = root.join(part.name()).join(name);
                let before = files.len();
                images(&path, class, &mut files, &mut others)?;
                if files.len() == before {
                    return Err(refuse(format!("{} has no image", path.display())));
                }
            }
            Ok(files)
        };
        let (train_files, val_files) = (files(Part::Train)?, files(Part::Val)?);
        Ok(Self { root: root.to_owned(), classes: train, train: train_files, val: val_files, others })
    }

    /// The folder that was named.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Names of the classes, sorted.
    pub fn classes(&self) -> &[OsString] {
        &self.classes
    }

    /// The images of a part, by class and name.
    pub fn files(&self, part: Part) -> &[File] {
        match part {
            Part::Train => &self.train,
            Part::Val => &self.val,
        }
    }

    /// Where an image is.
    pub fn path(&self, part: Part, file: &File) -> PathBuf {
        let mut path = self.root.join(part.name());
        path.push(&self.classes[usize::from(file.class)]);
        path.push(&file.name);
        path
    }

    /// Files and folders that stand where images or classes do and are none.
    pub fn others(&self) -> &[PathBuf] {
        &self.others
    }

    /// SHA-256 over the names of all images, with part and class, and their sizes: what the folder holds, wherever it is, as far as
    /// that can be told without reading it.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(b"reslab folder of images 1");
        for part in [Part::Train, Part::Val] {
            for file in self.files(part) {
                add(part.name().as_bytes());
                add(self.classes[usize::from(file.class)].as_encoded_bytes());
                add(file.name.as_encoded_bytes());
                add(&file.bytes.to_le_bytes());
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The folders in a part's, sorted.
fn classes(path: &Path, others: &mut Vec<PathBuf>) -> Result<Vec<OsString>, FolderError> {
    let mut found = Vec::new();
    for name in names(path)? {
        if path.join(&name).is_dir() {
            found.push(name);
        } else {
            others.push(path.join(&name));
        }
    }
    Ok(found)
}

/// Adds the images in a class's folder, sorted.
fn images(path: &Path, class: u16, files: &mut Vec<File>, others: &mut Vec<PathBuf>) -> Result<(), FolderError> {
    for name in names(path)? {
        let place = path.join(&name);
        // A link that leads nowhere is an image that can't be read: what is done about it is decided where it is.
        let (is_file, bytes) = fs::metadata(&place).map_or((true, 0), |found| (found.is_file(), found.len()));
        if is_file && has_extension(&name) {
            files.push(File { class, name, bytes });
        } else {
            others.push(place);
        }
    }
    Ok(())
}

fn has_extension(name: &OsStr) -> bool {
    let extension = Path::new(name).extension().map(OsStr::to_ascii_lowercase);
    extension.is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

/// What is in a folder and not hidden, sorted: a directory has no order of its own.
fn names(path: &Path) -> Result<Vec<OsString>, FolderError> {
    let failed = |source| FolderError::Io { path: path.display().to_string(), source };
    let entries = fs::read_dir(path).map_err(failed)?;
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
