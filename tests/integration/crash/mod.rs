//! Nothing is ordered twice and nothing is lost, wherever the operator dies and
//! whichever request or answer is lost.

mod call_trace;
mod chaos;
mod everywhere;
mod fault_point;
mod judge;
mod judgement;
mod lives;
mod noise;
mod proxied_world;
mod proxy;
mod sort;
mod takeover;
mod terminate;
mod turned_clock;
