//! Tests of the live account.
