//! The demo's own SSH key, created when the demo starts, so that only the user has its private half.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// OpenSSH's name of the algorithm.
const ALGORITHM: &str = "ssh-ed25519";

/// Why the key is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SshKeyError {
    #[error("cannot make a key pair")]
    Make(#[from] rcgen::Error),
    #[error("cannot keep the key pair")]
    Keep(#[from] io::Error),
}

/// Returns the public half of the key pair in `file` and `file.pub`, in the format of `id_ed25519.pub`.
/// Creates the pair if it does not exist.
pub(crate) fn public_half(file: &Path) -> Result<String, SshKeyError> {
    let public = file.with_extension("pub");
    if let Ok(line) = fs::read_to_string(&public) {
        return Ok(line);
    }
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
    let line = format!("{} demo\n", in_one_line(pair.public_key_raw()));
    let mut private = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?;
    private.write_all(pair.serialize_pem().as_bytes())?;
    fs::write(public, &line)?;
    Ok(line)
}

/// A public key in OpenSSH's format: the algorithm, then base64 of algorithm and key, each after its length.
pub(crate) fn in_one_line(key: &[u8]) -> String {
    let mut blob = Vec::new();
    for part in [ALGORITHM.as_bytes(), key] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        blob.extend(length.to_be_bytes());
        blob.extend(part);
    }
    format!("{ALGORITHM} {}", STANDARD.encode(blob))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_as_openssh_writes_it() {
        // Expected: the output of `ssh-keygen` for the same 32 bytes.
        let key: Vec<u8> = (0..32).collect();
        assert_eq!(
            in_one_line(&key),
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
        );
    }

    #[test]
    fn key_pair_is_private_and_made_once() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ssh-key");
        let first = public_half(&file).unwrap();
        assert_eq!(public_half(&file).unwrap(), first);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = public_half(&folder.path().join("other")).unwrap();
        assert_ne!(first, other);
    }
}
