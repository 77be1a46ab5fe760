//! Faults from outside: runs and sweeps killed at random moments, signals, full disks, damaged files. Whatever happens,
//! the same command goes on, and the records become those of an undisturbed sweep, byte for byte. See README.md.

#[path = "../support/mod.rs"]
mod support;

mod damage;
mod disk;
mod killed_runs;
mod killed_sweeps;
mod orders;
mod processes;
mod random;
mod records;
mod signals;
