//! Tests of the decision.

pub(crate) mod readings;
