//! What tch lacks: parameter scopes, random streams, fused optimizers, precision, memory figures.
