//! Writes the CLI reference and the JSON reference.

use std::fs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [commands, json, transcript] = &*args else {
        return Err("usage: cligen COMMANDS-PAGE JSON-PAGE TRANSCRIPT".into());
    };
    fs::write(commands, kubectl_flexmetal::reference_page())?;
    let transcript = fs::read_to_string(transcript)?;
    Ok(fs::write(
        json,
        kubectl_flexmetal::json_reference_page(&transcript),
    )?)
}
