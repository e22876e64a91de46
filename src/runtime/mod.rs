//! What every process needs: moments, health, telemetry, shutdown, clients of the API server.

pub mod clients;
pub mod clock;
pub mod health;
pub mod moment;
pub mod shutdown;
pub mod telemetry;

pub use moment::Moment;
