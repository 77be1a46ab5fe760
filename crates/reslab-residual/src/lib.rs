//! Residual-scaling strategies: the object of study, one file each.
