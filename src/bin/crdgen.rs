//! Writes the CustomResourceDefinitions: one file per kind into the folder given.

use std::{error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: crdgen FOLDER")?);
    fs::create_dir_all(&folder)?;
    for crd in flexmetal_operator::kinds::all_crds() {
        let text = flexmetal_operator::kinds::manifest(&crd)?;
        fs::write(folder.join(format!("{}.yaml", crd.spec.names.plural)), text)?;
    }
    Ok(())
}
