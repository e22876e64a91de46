//! Crash tests: no order is repeated and no server is lost when the operator is killed
//! or a request or an answer is lost.

mod call_trace;
mod chaos;
mod clock_skew;
mod fault_injection;
mod fault_point;
mod graceful_shutdown;
mod judge;
mod lifecycles;
mod proxied_world;
mod proxy;
mod random_faults;
mod request_kinds;
mod self_tests;
mod takeover;
