//! A sweep file becomes a frozen plan; its runs are started, watched and skipped when done.
