//! The kind of file system that a folder is on.

use std::path::Path;

/// Types of `statfs` whose files other machines may share, from the kernel's `linux/magic.h` and the systems' own sources.
const NETWORK: [(u32, &str); 13] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00c3_6400, "Ceph"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414f, "AFS"),
    (0x0102_1997, "9P"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x6573_5546, "FUSE, which may be a network's"),
];

/// The name of the network file system that a folder is on; `None` where it is a local one, or can't be told.
pub(crate) fn network(dir: &Path) -> Option<&'static str> {
    name_of(type_of(dir)?)
}

fn name_of(kind: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
}

fn type_of(dir: &Path) -> Option<u32> {
    let path = std::ffi::CString::new(dir.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: `path` is a C string that lives through the call, and `stats` is plain numbers.
    unsafe {
        let mut stats: libc::statfs = std::mem::zeroed();
        // Some libraries sign the type; its low 32 bits are the magic number.
        (libc::statfs(path.as_ptr(), &mut stats) == 0).then_some(stats.f_type as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_no_network_and_a_folder_that_is_not_there_has_no_type() {
        assert_eq!(type_of(Path::new("/proc")), Some(0x9fa0), "PROC_SUPER_MAGIC");
        assert_eq!(network(Path::new("/proc")), None);
        assert_eq!(type_of(Path::new("/no such folder")), None);
        assert_eq!((name_of(0x6969), name_of(0xff53_4d42)), (Some("NFS"), Some("CIFS")));
    }
}
