//! What kstatus, and the tools that build on it, read in every reason of a host.

use crate::controllers::readings::Reading;

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<Reading> {
    Vec::new()
}
