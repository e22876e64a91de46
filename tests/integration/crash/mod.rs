//! Nothing is ordered twice and nothing is lost, wherever the operator dies and
//! whichever request or answer is lost.

mod blow;
mod course;
mod everywhere;
mod judge;
mod judgement;
mod life;
mod proxy;
mod sort;
mod stage;
mod terminate;
