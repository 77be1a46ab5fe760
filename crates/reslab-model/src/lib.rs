//! The networks; their only variable part is the strategy.
