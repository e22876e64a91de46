//! The folder of one control plane: data, credentials and logs.

use std::io;
use std::path::{Path, PathBuf};

/// A folder that is removed at the end if we created it.
#[derive(Debug)]
pub(crate) enum Folder {
    /// Created by us, in the temporary folder or where the user wants it.
    Made(PathBuf),
    /// Existed before (empty), so it stays with its contents.
    Found(PathBuf),
}

impl Folder {
    /// Opens `wanted`, or creates a temporary folder.
    /// Rejects a folder that is not empty, because old data does not work with new keys.
    pub(crate) fn open(wanted: Option<PathBuf>) -> io::Result<Self> {
        let Some(wanted) = wanted else {
            return Ok(Self::Made(
                tempfile::Builder::new()
                    .prefix("flexmetal-lab-")
                    .tempdir()?
                    .keep(),
            ));
        };
        if wanted.exists() {
            let path = wanted.canonicalize()?;
            return match path.read_dir()?.next() {
                None => Ok(Self::Found(path)),
                Some(_) => Err(io::Error::new(
                    io::ErrorKind::DirectoryNotEmpty,
                    "it is not empty; name a new or empty folder",
                )),
            };
        }
        std::fs::create_dir_all(&wanted)?;
        // Absolute, because programs with other working folders use paths below it.
        Ok(Self::Made(wanted.canonicalize()?))
    }

    /// The absolute path.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Made(path) | Self::Found(path) => path,
        }
    }

    /// Removes the folder if we created it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match self {
            Self::Made(path) => match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            Self::Found(_) => Ok(()),
        }
    }
}

/// Copies a folder with everything in it.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    // etcd starts only if nobody else can read its data.
    std::fs::set_permissions(to, from.metadata()?.permissions())?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
