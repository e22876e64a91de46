//! The sizes of an account's parts within 64 KiB of spec and status, in bytes as the API server stores them:
//!
//! | Part | Most bytes | Enforced by |
//! |---|---|---|
//! | spec, except the next two | 16,640 | the schema |
//! | names, labels and limits in `allowedNamespaces` | 8,192 | a rule of the schema |
//! | CA bundle, in spec or, by `caBundleRef`, in status | 10,496 | a rule of the schema; its reader |
//! | status, except CA bundle and catalog | 27,904 | the schema; its writer |
//! | catalog | the rest, at most 24,576 | its writer |
//!
//! The tests of sizes in `crates/core` measure each part. [`super::bounds`] names what the bounds of a spec do not
//! count.

use super::bounds::LARGEST_OBJECT;

/// Most bytes of a spec without CA bundle and without the texts of `allowedNamespaces`.
pub const LARGEST_SPEC: usize = 16_640;
/// Most characters of names, labels and limits in `allowedNamespaces`, together.
pub(super) const LONGEST_ENTRIES: usize = 8_192;
/// Most bytes of a CA bundle. PEM is ASCII, so these are characters, too.
pub const LONGEST_CA_BUNDLE: usize = 10_240;
/// The same as it is stored, where a line break takes two bytes.
pub const LARGEST_CA_BUNDLE: usize = LONGEST_CA_BUNDLE + 256;
/// Most bytes of the conditions.
pub const LARGEST_CONDITIONS: usize = 6_912;
/// Most bytes of the orphans.
pub const LARGEST_ORPHANS: usize = 7_936;
/// Most bytes of the counted releases.
pub const LARGEST_RELEASES: usize = 8_704;
/// Most bytes of all else in a status without CA bundle and catalog.
pub const LARGEST_REST: usize = 4_608;
/// Most bytes of a status without CA bundle and catalog.
pub const LARGEST_STATUS: usize =
    LARGEST_CONDITIONS + LARGEST_ORPHANS + LARGEST_RELEASES + LARGEST_REST;
/// Most bytes of spec, CA bundle and catalog, together.
pub const SPEC_AND_CATALOG: usize = LARGEST_OBJECT - LARGEST_STATUS;
