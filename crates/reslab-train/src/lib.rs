//! One run: a RunConfig in, a record out.
