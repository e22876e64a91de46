//! What every process needs: moments, health, telemetry, shutdown.

pub mod clock;
pub mod moment;

pub use moment::Moment;
