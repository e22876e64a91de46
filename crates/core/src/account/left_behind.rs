//! The machines that earlier objects left behind, on whichever account.

use crate::account::{key::AccountKey, view::Sighting};
use std::time::Duration;

/// What objects of one namespace and name left behind.
#[derive(Default)]
pub struct LeftBehind {
    /// Their machines that are seen, in every state.
    pub machines: Vec<Sighting>,
    /// The accounts that may have more: they had retained machines when they were last counted, and no listing that is
    /// believed showed them since: after a restart, or with another key or URL. Those that had none make nobody wait, so
    /// that an account that is out of order does not stop the others.
    pub unlisted: Vec<AccountKey>,
}

/// What is asked for by [`Known::left_behind`](crate::server::recall::Known::left_behind).
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The mark of what objects of its name left behind.
    pub place: &'a str,
    /// When a listing has to have begun.
    pub since: Duration,
}
