//! Records become tables.
