//! What a process uses, according to Linux.

use std::fs;

use serde::Serialize;

/// Every Linux that Rust runs on reports processor time in hundredths of a
/// second to programs, whatever the kernel's own tick is.
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

/// Reads them; `None` where there is no /proc or the process is gone.
pub(crate) fn usage(pid: u32) -> Option<Use> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let kernel: f64 = fields.next()?.parse().ok()?;
    Some(Use {
        resident: kib("VmRSS:")?,
        peak: kib("VmHWM:")?,
        cpu: (user + kernel) / TICKS_PER_SECOND,
    })
}

/// The machine in one line: figures mean nothing without it.
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

/// How many processes were ready to run, as a mean over the last five minutes.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mean = load.split_whitespace().nth(1);
    mean.unwrap_or("unknown").to_owned()
}
