//! Writes the CustomResourceDefinitions: one file per kind into each folder given.

use std::{error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if folders.is_empty() {
        return Err("usage: crdgen FOLDER...".into());
    }
    for folder in &folders {
        fs::create_dir_all(folder)?;
        for crd in flexmetal_operator::kinds::all_crds() {
            let text = flexmetal_operator::kinds::manifest(&crd)?;
            fs::write(folder.join(format!("{}.yaml", crd.spec.names.plural)), text)?;
        }
    }
    Ok(())
}
