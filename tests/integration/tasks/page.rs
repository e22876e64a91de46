//! One page: its commands, and what it says that they show.

use std::path::{Path, PathBuf};

use super::seen;

/// What a block of the page begins with.
const COMMANDS: &str = "```sh\n";
const OUTPUT: &str = "```text\n";
const END: &str = "\n```";
/// What the prose before a block ends with where its last command has to fail. A reader of the page does not see it.
const FAILS: &str = "<!-- the next command is refused -->";
/// What a line says, at its beginning, when a command has failed.
const FAILURES: [&str; 6] = [
    "Error",
    "error: ",
    "The BareMetalServer ",
    "bash: ",
    "curl: ",
    "unknown ",
];
/// What kubectl says, somewhere in a line, when it has waited in vain.
const IN_VAIN: &str = "timed out waiting";
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
        /// Whether the last of them has to fail.
        fails: bool,
        /// What the page shows after them; `None`: nothing.
        shown: Option<String>,
        /// What they said when they were played.
        said: String,
    },
}

impl Page {
    pub fn read(path: &Path) -> Self {
        Self::parse(path, &std::fs::read_to_string(path).unwrap())
    }

    fn parse(path: &Path, text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((prose, after)) = rest.split_once(COMMANDS) {
            let fails = prose.trim_end().ends_with(FAILS);
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
                fails,
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
                // In one command: another one in between would have an exit code of its own.
                script += &format!("{text}\nprintf '\\n%s\\n' \"{MARK} {number} $?\"\n");
            }
        }
        script
    }

    /// Takes what the commands said; returns what is wrong whatever the page shows.
    pub fn take(&mut self, output: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut rest = output;
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            let Piece::Commands {
                text, fails, said, ..
            } = piece
            else {
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
            if let Some(what) = unexpected(*fails, code, said) {
                wrong.push(format!("{what}:\n{text}\n{said}"));
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
                ..
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
                Piece::Commands {
                    text, shown, said, ..
                } => {
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

/// What is wrong with the end of a block, whatever the page shows: a failure that it does not announce, or none where it
/// announces one.
fn unexpected(fails: bool, code: &str, said: &str) -> Option<String> {
    let is_failure =
        |line: &&str| FAILURES.iter().any(|f| line.starts_with(f)) || line.contains(IN_VAIN);
    let failures = said.lines().filter(is_failure).count();
    match (fails, code, failures) {
        (false, "0", 0) => None,
        (false, "0", _) => Some("a command failed".to_owned()),
        (false, code, _) => Some(format!("exit code {code}")),
        (true, "0", _) => Some("the last command should have been refused".to_owned()),
        // That it was refused, and nothing else.
        (true, _, 1) if !said.contains(IN_VAIN) => None,
        (true, ..) => Some("something else failed than the page announces".to_owned()),
    }
}

/// What is wrong with a page of one block, after this prose, that shows `shown` and ends like this.
#[cfg(test)]
fn played(prose: &str, code: u8, said: &str) -> Vec<String> {
    let text = format!("{prose}\n\n{COMMANDS}true{END}\n\n{OUTPUT}{said}{END}\n");
    let mut page = Page::parse(Path::new("page.md"), &text);
    let wrong = page.take(&format!("{said}\n{MARK} 1 {code}\n"));
    assert_eq!(page.text(), text);
    wrong
}

#[test]
fn unannounced_command_failure_is_an_error() {
    let refused = "Error from server (Forbidden): no";
    let in_vain = "error: timed out waiting for the condition on baremetalservers/web";
    assert_eq!(played("Do:", 0, "done"), [""; 0]);
    assert_eq!(played(FAILS, 1, refused), [""; 0]);
    for (prose, code, said) in [
        ("Do:", 1, refused),
        ("Do:", 0, refused),
        ("Do:", 0, in_vain),
        ("Do:", 1, ""),
        (FAILS, 0, "done"),
        (FAILS, 1, in_vain),
        (FAILS, 1, "Error: one\nError: two"),
    ] {
        assert_eq!(played(prose, code, said).len(), 1, "{prose} {code} {said}");
    }
}

#[test]
fn last_exit_code_of_each_block_is_checked() {
    let block = |command: &str| format!("Do:\n\n{COMMANDS}{command}{END}\n\n");
    let text = block("true") + &block("true\n(exit 7)") + &block("(exit 7)\ntrue");
    let mut page = Page::parse(Path::new("page.md"), &text);
    let script = ["-c", &page.script()];
    let output = std::process::Command::new("bash")
        .args(script)
        .output()
        .unwrap();
    let wrong = page.take(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(wrong, ["exit code 7:\ntrue\n(exit 7)\n"]);
}
