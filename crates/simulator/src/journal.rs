//! Keeps the accounts in a file: one line per change, on disk before the answer.
//!
//! Every line is complete in itself, so that a crash in the middle of one loses
//! only a change that was not answered yet. At the start the file is read and
//! rewritten as one line with the whole state, so that it does not grow forever.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::clock::Moment;
use super::keys::Keys;
use super::state::Change;

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The system refused it.
    #[error("cannot use the state file {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another simulator has it open.
    #[error("the state file {0} is in use")]
    InUse(PathBuf),
    /// It is something else, and would be lost.
    #[error(
        "{0} is not a state file of this program, which would replace it: give another name, or move it away"
    )]
    Foreign(PathBuf),
    /// It holds something else.
    #[error("line {line} of the state file {path} cannot be read")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Everything that changed since the line before, or the progress of time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// Answers may have been given up to here; time continues from here.
    pub(crate) at: Moment,
    /// Generators used so far, see `Luck`.
    pub(crate) draws: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<Keys>,
    /// By the account's name.
    pub(crate) accounts: Vec<(String, Vec<Change>)>,
}

/// How much of the file is on disk, and whether writing failed.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    lines: u64,
    broken: bool,
}

/// A file that changes are written to, by a thread of its own.
#[derive(Debug)]
pub(crate) struct Journal {
    lines: Sender<Vec<u8>>,
    handed: u64,
    progress: watch::Receiver<Progress>,
}

/// Waits for lines to be on disk.
#[derive(Debug)]
pub(crate) struct Written {
    line: u64,
    progress: watch::Receiver<Progress>,
}

/// The file can no longer be written.
#[derive(Debug, thiserror::Error)]
#[error("the state file cannot be written")]
pub(crate) struct NotWritten;

impl Written {
    /// Returns when the writer has closed the file, and another simulator can use
    /// it.
    pub(crate) async fn closed(mut self) {
        while self.progress.changed().await.is_ok() {}
    }

    /// Returns when they are.
    ///
    /// # Errors
    /// When they never will be.
    pub(crate) async fn wait(mut self) -> Result<(), NotWritten> {
        let line = self.line;
        let reached = self
            .progress
            .wait_for(|progress| progress.broken || progress.lines >= line)
            .await;
        match reached {
            Ok(progress) if progress.lines >= line => Ok(()),
            _ => Err(NotWritten),
        }
    }
}

/// A state file that is open and locked.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    file: File,
}

impl StateFile {
    /// Opens or creates it. It holds keys: nobody else may read it.
    ///
    /// # Errors
    /// When the system refuses, or another simulator has it.
    pub(crate) fn open(path: &Path) -> Result<Self, StateFileError> {
        let failed = |source| failure(path, source);
        // A device, a pipe or a folder would be replaced by a file.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(StateFileError::Foreign(path.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.open(path).map_err(failed)?;
        lock(&file, path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Every whole line in it, oldest first.
    ///
    /// # Errors
    /// When a complete line cannot be read.
    pub(crate) fn lines(&self) -> Result<Vec<Line>, StateFileError> {
        let mut reader = BufReader::new(&self.file);
        let mut lines = Vec::new();
        let mut text = Vec::new();
        loop {
            text.clear();
            let read = reader.read_until(b'\n', &mut text);
            read.map_err(|source| failure(&self.path, source))?;
            if text.last() != Some(&b'\n') {
                // The end of a line that a crash cut off. The first one is whole before the file has its name.
                return match lines.is_empty() && !text.is_empty() {
                    true => Err(StateFileError::Foreign(self.path.clone())),
                    false => Ok(lines),
                };
            }
            let line = serde_json::from_slice(&text).map_err(|source| StateFileError::Line {
                path: self.path.clone(),
                line: lines.len() + 1,
                source,
            })?;
            lines.push(line);
        }
    }

    /// Replaces all lines by one, and continues after it.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn compact(self, line: &Line) -> Result<Journal, StateFileError> {
        let failed = |source| failure(&self.path, source);
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let fresh = PathBuf::from(name);
        if !is_left_over(&fresh) {
            return Err(StateFileError::Foreign(fresh));
        }
        let _ = fs::remove_file(&fresh);
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let mut file = options.open(&fresh).map_err(failed)?;
        lock(&file, &self.path)?;
        file.write_all(&text(line)).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&fresh, &self.path).map_err(failed)?;
        // The new name must be on disk too.
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(failed)?;

        let (lines, inbox) = channel();
        let (report, progress) = watch::channel(Progress::default());
        // Ends when the journal is dropped and its channel closes.
        thread::spawn(move || write_all(file, &inbox, &report));
        Ok(Journal {
            lines,
            handed: 0,
            progress,
        })
    }
}

impl Journal {
    /// Queues a line.
    pub(crate) fn append(&mut self, line: &Line) {
        self.handed += 1;
        // A writer that has ended said so in its last report.
        let _ = self.lines.send(text(line));
    }

    /// Waits for everything queued so far.
    pub(crate) fn written(&self) -> Written {
        Written {
            line: self.handed,
            progress: self.progress.clone(),
        }
    }
}

/// What a line begins with.
const BEGIN: &[u8] = b"{\"at\":";

/// Whether nothing is lost with this file: there is none, or it is what a start left that did not come to its end,
/// lines of ours of which the last may be cut off.
fn is_left_over(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else {
        return true;
    };
    // To open a pipe would wait for somebody who writes to it.
    if !found.is_file() {
        return false;
    }
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    loop {
        // Before all of a line that may be endless is read.
        let is_begun = |begin: &[u8]| begin.iter().zip(BEGIN).all(|(found, ours)| found == ours);
        match reader.fill_buf() {
            Ok([]) => return true,
            Ok(begin) if is_begun(begin) => {}
            _ => return false,
        }
        text.clear();
        if reader.read_until(b'\n', &mut text).is_err() {
            return false;
        }
        let is_cut_off = text.last() != Some(&b'\n');
        match serde_json::from_slice::<Line>(&text) {
            Ok(_) => {}
            Err(error) if is_cut_off && error.is_eof() => {}
            Err(_) => return false,
        }
    }
}

fn failure(path: &Path, source: io::Error) -> StateFileError {
    StateFileError::File {
        path: path.to_owned(),
        source,
    }
}

fn lock(file: &File, path: &Path) -> Result<(), StateFileError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StateFileError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(failure(path, source)),
    }
}

fn text(line: &Line) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Writes everything queued at once and syncs it to disk: many changes cost one
/// wait.
fn write_all(mut file: File, inbox: &Receiver<Vec<u8>>, report: &watch::Sender<Progress>) {
    let mut lines = 0;
    while let Ok(mut batch) = inbox.recv() {
        lines += 1;
        for more in inbox.try_iter() {
            batch.extend(more);
            lines += 1;
        }
        let done = file.write_all(&batch).and_then(|()| file.sync_data());
        let broken = done.is_err();
        report.send_modify(|progress| {
            progress.broken = broken;
            if !broken {
                progress.lines = lines;
            }
        });
        if broken {
            return;
        }
    }
}
