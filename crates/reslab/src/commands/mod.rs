//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod config_docs;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod exec_probe;
pub(crate) mod exec_run;
pub(crate) mod export;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod start;
pub(crate) mod strategies;
pub(crate) mod sweep;
pub(crate) mod watch;
