//! One page: its commands, and what it says that they show.

use std::path::{Path, PathBuf};

use super::seen;

/// What a block of the page begins with.
const COMMANDS: &str = "```sh\n";
const OUTPUT: &str = "```text\n";
const END: &str = "\n```";
/// Ends what a block of commands said; followed by the number of the block and the last command's exit code.
const MARK: &str = "@@@ end of block";

/// A page as a row of pieces.
pub struct Page {
    /// Its name, without folder and ending.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    pieces: Vec<Piece>,
}

enum Piece {
    Prose(String),
    Commands {
        text: String,
        /// What the page shows after them; `None`: nothing.
        shown: Option<String>,
        /// What they said when they were played.
        said: String,
    },
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((prose, after)) = rest.split_once(COMMANDS) {
            pieces.push(Piece::Prose(prose.to_owned()));
            let (commands, after) = after.split_once(END).expect("a block ends");
            let next = after.trim_start_matches('\n').strip_prefix(OUTPUT);
            let (shown, after) = match next {
                // A block without a line ends where it begins.
                Some(next) if next.starts_with("```") => (Some(String::new()), &next[3..]),
                Some(next) => {
                    let (shown, after) = next.split_once(END).expect("a block ends");
                    (Some(shown.to_owned()), after)
                }
                None => (None, after),
            };
            pieces.push(Piece::Commands {
                text: commands.to_owned(),
                shown,
                said: String::new(),
            });
            rest = after;
        }
        pieces.push(Piece::Prose(rest.to_owned()));
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            path: path.to_owned(),
            pieces,
        }
    }

    /// All commands in a row, with what tells their output apart.
    pub fn script(&self) -> String {
        let mut script = String::new();
        for (number, piece) in self.pieces.iter().enumerate() {
            if let Piece::Commands { text, .. } = piece {
                script += &format!("{text}\necho; echo \"{MARK} {number} $?\"\n");
            }
        }
        script
    }

    /// Takes what the commands said; returns what is wrong whatever the page shows.
    pub fn take(&mut self, output: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut rest = output;
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            let Piece::Commands { text, shown, said } = piece else {
                continue;
            };
            let Some((before, after)) = rest.split_once(&format!("{MARK} {number} ")) else {
                wrong.push(format!(
                    "the page did not get to the end of:\n{text}\n{rest}"
                ));
                return wrong;
            };
            let (code, after) = after.split_once('\n').unwrap_or((after, ""));
            *said = seen::plain(before);
            // Where the page shows nothing, nothing may fail unseen.
            if shown.is_none() && code != "0" {
                wrong.push(format!("exit code {code}:\n{text}\n{said}"));
            }
            rest = after;
        }
        wrong
    }

    /// Where the page shows something else than what was said.
    pub fn differences(&self) -> Vec<String> {
        let differs = |piece: &Piece| match piece {
            Piece::Commands {
                text,
                shown: Some(shown),
                said,
            } => seen::difference(&format!("{}:\n{text}\n", self.name), shown, said),
            _ => None,
        };
        self.pieces.iter().filter_map(differs).collect()
    }

    /// The page with what was said now.
    pub fn text(&self) -> String {
        let mut whole = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Prose(text) => whole += text,
                Piece::Commands { text, shown, said } => {
                    whole += &format!("{COMMANDS}{text}{END}");
                    if shown.is_some() {
                        whole += &format!("\n\n{OUTPUT}{said}{END}");
                    }
                }
            }
        }
        whole
    }
}
