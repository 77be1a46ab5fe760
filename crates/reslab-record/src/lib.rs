//! What a run leaves on disk, written and read; no libtorch.
