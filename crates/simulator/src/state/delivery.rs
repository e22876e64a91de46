//! How a delivery will go: decided at the order, carried out by the clock.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt};

use super::super::clock::Moment;
use super::super::options::Delivery;
use super::super::profile::StateView;
use super::machine::{Cause, Step};
use super::status::Status;

const REASONS: [&str; 4] = [
    "Hardware discovery timed out",
    "Network configuration failed",
    "Operating system installation failed",
    "Disk health check failed",
];

/// The settings of deliveries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chances {
    /// How long they take.
    pub(crate) span: Delivery,
    /// Share that fails.
    pub(crate) failure_rate: f64,
}

impl Chances {
    /// The steps of one delivery that starts `now`.
    ///
    /// Always draws the same amount of randomness, so that a changed
    /// setting does not shift everything after it.
    pub(crate) fn plan(self, now: Moment, view: StateView, rng: &mut StdRng) -> VecDeque<Step> {
        let span = self.span(rng);
        let unlucky = rng.random::<f64>() < self.failure_rate;
        let breakdown = span.mul_f64(rng.random_range(0.1..1.0));
        let reason = REASONS[usize::from(rng.random::<u8>()) % REASONS.len()];

        let mut steps = VecDeque::new();
        if view == StateView::Long {
            let stations = Status::PIPELINE.len();
            for (station, status) in (1_u32..).zip(Status::PIPELINE) {
                let share =
                    f64::from(station) / f64::from(u32::try_from(stations).unwrap_or(8) + 1);
                steps.push_back(Step::new(
                    now.after(span.mul_f64(share)),
                    status,
                    Cause::Pipeline,
                ));
            }
        }
        steps.push_back(Step::new(
            now.after(span),
            Status::Delivered,
            Cause::Pipeline,
        ));
        if unlucky {
            steps.retain(|step| step.at <= now.after(breakdown));
            steps.retain(|step| step.status != Status::Delivered);
            steps.push_back(
                Step::new(now.after(breakdown), Status::Failed, Cause::Pipeline).saying(reason),
            );
        }
        steps
    }

    /// Log-normal around the geometric mean of the bounds, three deviations
    /// wide, cut off at the bounds.
    fn span(self, rng: &mut impl Rng) -> Duration {
        let (uniform, angle) = (rng.random::<f64>(), rng.random::<f64>() * TAU);
        // 1 - x, as the logarithm of 0 must not be asked for.
        let normal = (-2.0 * (1.0 - uniform).ln()).sqrt() * angle.cos();
        let min = self.span.min.as_secs_f64().max(0.001);
        let max = self.span.max.as_secs_f64().max(min);
        let middle = (min.ln() + max.ln()) / 2.0;
        let deviation = (max.ln() - min.ln()) / 6.0;
        let seconds = (middle + deviation * normal).exp();
        Duration::from_secs_f64(seconds).clamp(self.span.min, self.span.max)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn chances(failure_rate: f64) -> Chances {
        let span = Delivery {
            min: Duration::from_mins(3),
            max: Duration::from_mins(15),
        };
        Chances { span, failure_rate }
    }

    #[test]
    fn delivery_time_is_bounded_and_skews_short() {
        let mut rng = StdRng::seed_from_u64(7);
        let now = Moment::from_unix(0);
        let mut ends: Vec<u64> = (0..500)
            .map(|_| chances(0.0).plan(now, StateView::Short, &mut rng))
            .map(|plan| plan.back().unwrap().at.unix())
            .collect();
        ends.sort_unstable();
        assert!(ends[0] >= 180 && ends[499] <= 900);
        assert!((300..540).contains(&ends[250]), "median {}", ends[250]);
    }

    #[test]
    fn the_long_view_passes_every_station_in_order() {
        let mut rng = StdRng::seed_from_u64(7);
        let plan = chances(0.0).plan(Moment::from_unix(0), StateView::Long, &mut rng);
        let passed: Vec<Status> = plan.iter().map(|step| step.status).collect();
        assert_eq!(passed[..8], Status::PIPELINE);
        assert_eq!(passed[8], Status::Delivered);
        assert!(
            plan.iter()
                .zip(plan.iter().skip(1))
                .all(|(a, b)| a.at < b.at)
        );
    }

    #[test]
    fn failures_match_rate_and_never_deliver() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut failed = 0;
        for _ in 0..1_000 {
            let plan = chances(0.2).plan(Moment::from_unix(0), StateView::Long, &mut rng);
            let last = plan.back().unwrap();
            if last.status == Status::Failed {
                failed += 1;
                assert!(!last.message.is_empty());
                assert!(plan.iter().all(|step| step.status != Status::Delivered));
            }
        }
        assert!((150..250).contains(&failed), "{failed}");
    }

    #[test]
    fn the_same_seed_gives_the_same_delivery() {
        let plan = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let plan = chances(0.5).plan(Moment::from_unix(0), StateView::Short, &mut rng);
            plan.iter()
                .map(|step| (step.at, step.status))
                .collect::<Vec<_>>()
        };
        assert_eq!(plan(3), plan(3));
        assert_ne!(plan(3), plan(4));
    }
}
