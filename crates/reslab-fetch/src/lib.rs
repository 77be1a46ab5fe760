//! Files of data sets: where they are looked for, fetched from and checked; no libtorch.
