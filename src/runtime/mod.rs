//! What every process needs: health, telemetry, shutdown.
