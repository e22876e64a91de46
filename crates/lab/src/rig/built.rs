//! Where cargo has put the programs of this workspace.

use std::path::{Path, PathBuf};

/// A program of the profile that this one was built with: `flexmetal-operator`, `lab`,
/// `examples/crdgen`. Cargo builds the programs of other packages only where it is asked to, so
/// `cargo build --workspace --bins --examples` comes first; `make test` does that.
///
/// # Panics
/// If it was not built.
pub fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a program has a path");
    let folder = this.parent().expect("a program lies in a folder");
    let is_inner = |folder: &Path| folder.ends_with("deps") || folder.ends_with("examples");
    let profile = match folder.parent() {
        Some(profile) if is_inner(folder) => profile,
        _ => folder,
    };
    let program = profile.join(name);
    assert!(
        program.is_file(),
        "{} is missing: run `cargo build --workspace --bins --examples` first",
        program.display()
    );
    program
}
