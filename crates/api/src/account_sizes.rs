//! What an account takes of 64 KiB, spec and status, in bytes as the API server stores them:
//!
//! | Part | Most bytes | Held by |
//! |---|---|---|
//! | spec, but for the next two | 16,384 | the schema |
//! | names, labels and limits in `allowedNamespaces` | 8,192 | a rule of the schema |
//! | CA bundle, in spec or, by `caBundleRef`, in status | 10,496 | the schema; who reads it |
//! | status, but for CA bundle and catalog | 27,648 | the schema; who builds it |
//! | catalog | what the others leave, 24,576 at most | who builds it |
//!
//! Of the status, conditions take 7,680 at most, orphans 7,680, counted releases 7,680, and all else 4,608. The tests of sizes
//! in `crates/core` measure each part. Of a spec the schema counts characters as they are: one of characters that JSON escapes
//! can pass 64 KiB.

/// Most bytes of spec and status.
const MOST: usize = 64 * 1024;
/// Most characters of names, labels and limits in `allowedNamespaces`, together.
pub(super) const LONGEST_ENTRIES: usize = 8_192;
/// Most bytes of a CA bundle. PEM is ASCII, so these are characters, too.
pub const LONGEST_CA_BUNDLE: usize = 10_240;
/// The same as it is stored, where a line break takes two bytes.
pub const LARGEST_CA_BUNDLE: usize = LONGEST_CA_BUNDLE + 256;
/// Most bytes of a status without CA bundle and catalog.
pub const LARGEST_STATUS: usize = 27_648;
/// Most bytes of spec, CA bundle and catalog, together.
pub const SPEC_AND_CATALOG: usize = MOST - LARGEST_STATUS;
