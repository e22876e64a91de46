//! Memory and processor time of a process, from /proc.

use std::fs;

use serde::Serialize;

/// Linux reports processor time to programs in hundredths of a second, independent of the kernel's tick.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory and processor time of one process.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Use {
    /// Resident memory now, KiB.
    pub(crate) resident: u64,
    /// Peak resident memory, KiB.
    pub(crate) peak: u64,
    /// Processor seconds since its start, in user space and kernel.
    pub(crate) cpu: f64,
}

/// Reads the usage. `None` without /proc, or if the process is gone.
pub(crate) fn usage(pid: u32) -> Option<Use> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses and may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let kernel: f64 = fields.next()?.parse().ok()?;
    Some(Use {
        resident: kib("VmRSS:")?,
        peak: kib("VmHWM:")?,
        cpu: (user + kernel) / TICKS_PER_SECOND,
    })
}

/// The computer in one line, to interpret the figures.
pub(crate) fn describe_computer() -> String {
    let first = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = first("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = first("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{cores} cores of {model}, memory {memory}, {} {}",
        std::env::consts::OS,
        kernel.trim()
    )
}

/// Mean number of processes that were ready to run in the last five minutes.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mean = load.split_whitespace().nth(1);
    mean.unwrap_or("unknown").to_owned()
}
