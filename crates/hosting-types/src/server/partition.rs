//! The partitions that a server is installed with (2.8-6 to 2.8-12).

use std::collections::HashSet;

use serde::{Serialize, Serializer};

use crate::request::InvalidRequest;

/// A partition of the first disk (2.8-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Where it is mounted, for example `/boot`.
    pub target: String,
    /// The file system, in the API's word. Any one-word text passes: the document names no words, and the known ones
    /// (2.8-8, 2.8-9) may not be all.
    pub filesystem: String,
    /// How large it is.
    pub size: PartitionSize,
}

/// The size of a partition (2.8-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionSize {
    /// Megabytes, at least 1.
    Megabytes(u32),
    /// The rest of the disk.
    Rest,
}

impl Serialize for PartitionSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Megabytes(size) => serializer.serialize_u32(*size),
            Self::Rest => serializer.serialize_i8(-1),
        }
    }
}

pub(super) fn check_partitions(partitions: &[Partition]) -> Result<(), InvalidRequest> {
    let is_word = |text: &str| {
        (1..=255).contains(&text.len())
            && !text
                .chars()
                .any(|letter| letter.is_whitespace() || letter.is_control())
    };
    let mut targets = HashSet::new();
    let mut rests = 0;
    for (index, partition) in partitions.iter().enumerate() {
        let empty = partition.size == PartitionSize::Megabytes(0);
        if empty || !is_word(&partition.target) || !is_word(&partition.filesystem) {
            return Err(InvalidRequest::Partition { index });
        }
        if !targets.insert(partition.target.as_str()) {
            return Err(InvalidRequest::PartitionTwice { index });
        }
        rests += usize::from(partition.size == PartitionSize::Rest);
    }
    if rests > 1 {
        return Err(InvalidRequest::PartitionRest);
    }
    Ok(())
}
