//! `report`: a zip file for a bug report.

mod contents;
mod redaction;

use crate::{
    ages,
    context::{PluginContext, ScopeArgs},
    exit::{Exit, PluginError},
    output::OutputForm,
};
use contents::ReportParts;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Cursor, Write as _},
    path::PathBuf,
};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// Arguments of `report`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// The file to write; default: a name with the time, in this folder
    #[arg(long, value_name = "FILE.zip")]
    to: Option<PathBuf>,
    #[command(flatten)]
    scope: ScopeArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenReport {
    file: String,
    contents: Vec<String>,
    missing: Vec<String>,
}

/// Writes the report.
pub async fn run(context: &PluginContext, args: ReportArgs) -> Result<Exit, PluginError> {
    let path = args.to.clone().unwrap_or_else(|| {
        let time = ages::now().strftime("%Y%m%d-%H%M%S");
        PathBuf::from(format!("flexmetal-report-{time}.zip"))
    });
    let file = path.display().to_string();
    let failed = |source| {
        let path = file.clone();
        PluginError::File { path, source }
    };
    // Before the reads, which take a while.
    let mut target = fs::File::create_new(&path).map_err(failed)?;
    let parts = ReportParts::collect(context, &args.scope).await;
    let missing = parts.missing.clone();
    let files = parts.build_files()?;
    let archive = zip_files(&files).map_err(failed)?;
    target.write_all(&archive).map_err(failed)?;
    let printer = &context.printer;
    if !missing.is_empty() {
        let left_out = missing.len();
        printer.inform(&format!(
            "Left out: {left_out} parts; missing.txt in the file says why"
        ));
    }
    match printer.form {
        OutputForm::Json | OutputForm::Yaml => printer.data(&WrittenReport {
            file,
            contents: files.into_keys().collect(),
            missing,
        })?,
        OutputForm::Table | OutputForm::Wide | OutputForm::Name | OutputForm::Csv => {
            printer.text(&format!("{file}\n"))?;
            printer.inform(
                "It has names, addresses and logs. Keys, scripts and user data are removed; check it before you send it",
            );
        }
    }
    Ok(Exit::Fine)
}

/// An archive of these files.
fn zip_files(files: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (file, text) in files {
        archive.start_file(file.as_str(), options)?;
        archive.write_all(text.as_bytes())?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use contents::tests::{CANARIES, parts};
    use std::io::Read as _;

    #[test]
    fn archive_has_every_file_and_no_secret() {
        let files = parts().build_files().unwrap();
        let bytes = zip_files(&files).unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        assert_eq!(archive.len(), files.len());
        for at in 0..archive.len() {
            let mut entry = archive.by_index(at).unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let name = entry.name().unwrap().into_owned();
            assert_eq!(Some(&text), files.get(&name));
            for canary in CANARIES {
                assert!(!text.contains(canary), "{canary} in {name}");
            }
        }
    }
}
