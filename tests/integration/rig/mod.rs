//! What tests of the whole are built on: simulator, operator and objects, each
//! in a world of its own. Everything ends when it is dropped.

#![allow(
    dead_code,
    reason = "a kit: it has what tests of the whole ask for, before all of them are there"
)]

mod kstatus;
mod objects;
mod operator;
mod program;
mod simulator;
mod world;

mod rehearsal;

pub(crate) use kstatus::{Health, condition, health};
pub(crate) use program::Program;
pub(crate) use simulator::{Fault, Simulator};
pub(crate) use world::{Plan, World, install_kinds, quick_timing, server};
