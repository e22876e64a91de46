//! What every process needs: moments, health, telemetry, shutdown.

pub mod moment;

pub use moment::Moment;
