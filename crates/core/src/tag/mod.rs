//! ServerTag objects: tags of an account.

pub mod decide;
pub mod facts;
