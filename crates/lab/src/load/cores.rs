//! Binds the simulator to one core and the load to another.

/// The cores of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    simulator: usize,
    load: usize,
}

impl Cores {
    /// Two cores that this process may use. `None` with fewer cores, or if the system cannot bind processes.
    pub(super) fn find() -> Option<Self> {
        let mut free = system::usable().into_iter();
        Some(Self {
            simulator: free.next()?,
            load: free.next()?,
        })
    }

    /// Binds this process to the simulator's core. A child inherits that for all its threads.
    pub(super) fn bind_to_simulator_core(self) -> std::io::Result<()> {
        system::bind(self.simulator)
    }

    /// Binds this process to the load's core.
    pub(super) fn bind_to_load_core(self) -> std::io::Result<()> {
        system::bind(self.load)
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (simulator, load) = (self.simulator, self.load);
        write!(
            formatter,
            "the simulator has core {simulator} and no other, the load core {load}"
        )
    }
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn usable() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else {
            return Vec::new();
        };
        let all = 0..CpuSet::MAX_CPU;
        all.filter(|core| set.is_set(*core)).collect()
    }

    pub(super) fn bind(core: usize) -> std::io::Result<()> {
        let mut set = CpuSet::new();
        set.set(core);
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn usable() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn bind(_: usize) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
