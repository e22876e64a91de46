//! What every process needs: clocks, leader election, endpoints, telemetry, shutdown, clients of the API server.

pub mod api_server_calls;
pub mod clients;
pub mod clock;
pub mod endpoints;
pub mod kind_api;
pub mod leader;
pub mod metrics;
pub mod panics;
pub mod shutdown;
pub mod telemetry;
