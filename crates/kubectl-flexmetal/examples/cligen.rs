//! Writes the CLI reference into a file.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err("usage: cligen PAGE".into());
    };
    Ok(std::fs::write(path, kubectl_flexmetal::reference_page())?)
}
