//! Processor time, memory and file descriptors of this process, as Prometheus names them.

use super::{
    list::Metric,
    samples::{Samples, count},
};
use procfs::{
    CurrentSI as _, KernelStats, ProcResult, WithCurrentSystemInfo as _,
    process::{LimitValue, Process},
    ticks_per_second,
};

/// Adds the metrics of this process. Adds nothing if /proc cannot be read.
pub(super) fn collect(samples: &mut Samples) {
    let _ = read_process(samples);
}

// Times and sizes of a process are exact in 53 bits.
#[allow(clippy::cast_precision_loss)]
fn read_process(samples: &mut Samples) -> ProcResult<()> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = ticks_per_second() as f64;
    let boot = KernelStats::current()?.btime as f64;
    let cpu = (stat.utime + stat.stime) as f64 / ticks;
    samples.set(Metric::ProcessCpu, &[], cpu);
    samples.set(
        Metric::ProcessStart,
        &[],
        boot + stat.starttime as f64 / ticks,
    );
    samples.set(Metric::ProcessVirtualMemory, &[], stat.vsize as f64);
    samples.set(
        Metric::ProcessResidentMemory,
        &[],
        stat.rss_bytes().get() as f64,
    );
    samples.set(Metric::ProcessOpenFds, &[], count(process.fd_count()?));
    if let LimitValue::Value(most) = process.limits()?.max_open_files.soft_limit {
        samples.set(Metric::ProcessMaxFds, &[], most as f64);
    }
    Ok(())
}
