use super::*;

/// A folder of these files, whose bytes are their names.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    dir
}

const GOOD: [&str; 5] = ["train/b/2.jpg", "train/b/10.JPEG", "train/a/x.webp", "val/a/1.png", "val/b/1.Png"];

fn with(more: &[&str]) -> tempfile::TempDir {
    folder(&[&GOOD, more].concat())
}

#[track_caller]
fn refused(files: &[&str], parts: &[&str]) {
    let dir = folder(files);
    let error = Folder::list(dir.path()).unwrap_err().to_string();
    let root = dir.path().display().to_string();
    for part in [&[root.as_str(), "must be a folder with train/ and val/"], parts].concat() {
        assert!(error.contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn classes_and_images_are_sorted_by_name() {
    let dir = with(&["train/b/notes.txt", "train/README", "train/.hidden/1.jpg", "train/a/.1.jpg"]);
    let folder = Folder::list(dir.path()).unwrap();
    assert_eq!(folder.classes(), ["a", "b"]);
    let shown = |part| -> Vec<String> {
        let paths = folder.files(part).iter().map(|file| folder.path(part, file));
        paths.map(|path| path.strip_prefix(dir.path()).unwrap().display().to_string()).collect()
    };
    assert_eq!(shown(Part::Train), ["train/a/x.webp", "train/b/10.JPEG", "train/b/2.jpg"]);
    assert_eq!(shown(Part::Val), ["val/a/1.png", "val/b/1.Png"]);
    assert_eq!(folder.files(Part::Train).iter().map(|file| file.class).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(folder.others(), [dir.path().join("train/README"), dir.path().join("train/b/notes.txt")]);
}

#[test]
fn a_folder_of_another_layout_is_refused_with_what_is_missing() {
    refused(&["val/a/1.png"], &["no folder train/"]);
    refused(&["train/a/1.png"], &["no folder val/"]);
    refused(&["train/1.png", "val/1.png"], &["train/ has no folder"]);
    refused(&["train/a/1.png", "val/b/1.png"], &["val/ has no folder a"]);
    refused(&["train/a/1.png", "val/a/1.png", "val/b/1.png"], &["val/ has a folder b", "train/ has not"]);
    refused(&["train/a/1.png", "train/b/1.gif", "val/a/1.png", "val/b/1.png"], &["train/b has no image"]);
    let empty = with(&[]);
    fs::create_dir(empty.path().join("train/c")).unwrap();
    fs::create_dir(empty.path().join("val/c")).unwrap();
    assert!(Folder::list(empty.path()).unwrap_err().to_string().contains("train/c has no image"));
    let nowhere = Folder::list(&empty.path().join("no")).unwrap_err().to_string();
    assert!(nowhere.contains("does not exist"), "{nowhere}");
    assert!(Folder::list(with(&[]).path()).is_ok(), "control");
}

#[test]
fn the_digest_is_of_names_and_sizes_and_of_no_place() {
    let digest = |dir: &tempfile::TempDir| Folder::list(dir.path()).unwrap().digest();
    let first = with(&[]);
    let base = digest(&first);
    assert_eq!((base.len(), &base), (64, &digest(&with(&["train/b/notes.txt"]))));
    assert_ne!(base, digest(&with(&["train/b/3.jpg"])));
    fs::rename(first.path().join("train/b/2.jpg"), first.path().join("train/b/3.jpg")).unwrap();
    assert_ne!(base, digest(&first), "another name");
    let longer = with(&[]);
    fs::write(longer.path().join("train/b/2.jpg"), "longer than before").unwrap();
    assert_ne!(base, digest(&longer), "another size");
    let moved = with(&[]);
    fs::rename(moved.path().join("train/b/2.jpg"), moved.path().join("train/a/2.jpg")).unwrap();
    assert_ne!(base, digest(&moved), "another class");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_one_that_leads_nowhere_is_an_image_that_cannot_be_read() {
    use std::os::unix::fs::symlink;
    let dir = with(&[]);
    symlink(dir.path().join("val/a"), dir.path().join("train/c")).unwrap();
    symlink(dir.path().join("val/a"), dir.path().join("val/c")).unwrap();
    symlink("nowhere", dir.path().join("train/a/z.jpg")).unwrap();
    let folder = Folder::list(dir.path()).unwrap();
    assert_eq!((folder.classes().len(), folder.files(Part::Train).len()), (3, 5));
    let lost = folder.path(Part::Train, &folder.files(Part::Train)[1]);
    assert!(matches!(crate::read(&lost), Err(crate::Broken::Io(_))));
}
