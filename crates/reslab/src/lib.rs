//! The residual-scaling lab: which way of joining a branch to the residual stream keeps a deep vision transformer trainable?
