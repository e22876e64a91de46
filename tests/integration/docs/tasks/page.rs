//! One page: its commands, and the output that it shows.

use std::path::{Path, PathBuf};

use super::normalized_text;

/// The start of a block of commands.
const COMMANDS: &str = "```sh\n";
const OUTPUT: &str = "```text\n";
const END: &str = "\n```";
/// The end of the prose before a block whose last command must fail. Readers do not see it.
const FAILS: &str = "<!-- the next command is refused -->";
/// The start of a line that reports a failed command.
const FAILURES: [&str; 6] = [
    "Error",
    "error: ",
    "The BareMetalServer ",
    "bash: ",
    "curl: ",
    "unknown ",
];
/// kubectl's words in a line when a wait timed out.
const IN_VAIN: &str = "timed out waiting";
/// Ends the output of a block of commands. The number of the block and the last command's exit code follow.
const END_OF_BLOCK: &str = "@@@ end of block";

/// A page as a list of pieces.
pub struct TaskPage {
    /// Name of the file, without folder and extension.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    pieces: Vec<PagePiece>,
}

enum PagePiece {
    Prose(String),
    Commands {
        text: String,
        /// Whether the last command must fail.
        fails: bool,
        /// The output that the page shows after them. `None` means no output block.
        shown: Option<String>,
        /// The output of this run.
        said: String,
    },
}

impl TaskPage {
    pub fn load(path: &Path) -> Self {
        Self::parse(path, &std::fs::read_to_string(path).unwrap())
    }

    fn parse(path: &Path, text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((prose, after)) = rest.split_once(COMMANDS) {
            let fails = prose.trim_end().ends_with(FAILS);
            pieces.push(PagePiece::Prose(prose.to_owned()));
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
            pieces.push(PagePiece::Commands {
                text: commands.to_owned(),
                fails,
                shown,
                said: String::new(),
            });
            rest = after;
        }
        pieces.push(PagePiece::Prose(rest.to_owned()));
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            path: path.to_owned(),
            pieces,
        }
    }

    /// All commands as one script, with separators in its output.
    pub fn script(&self) -> String {
        let mut script = String::new();
        for (number, piece) in self.pieces.iter().enumerate() {
            if let PagePiece::Commands { text, .. } = piece {
                // One printf: a second command in between would change the exit code.
                script += &format!("{text}\nprintf '\\n%s\\n' \"{END_OF_BLOCK} {number} $?\"\n");
            }
        }
        script
    }

    /// Records the output of the commands. Returns the problems that do not depend on the shown output.
    pub fn record_output(&mut self, output: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut rest = output;
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            let PagePiece::Commands {
                text, fails, said, ..
            } = piece
            else {
                continue;
            };
            let Some((before, after)) = rest.split_once(&format!("{END_OF_BLOCK} {number} "))
            else {
                wrong.push(format!(
                    "the page did not get to the end of:\n{text}\n{rest}"
                ));
                return wrong;
            };
            let (code, after) = after.split_once('\n').unwrap_or((after, ""));
            *said = normalized_text::normalize_text(before);
            if let Some(what) = describe_unexpected_end(*fails, code, said) {
                wrong.push(format!("{what}:\n{text}\n{said}"));
            }
            rest = after;
        }
        wrong
    }

    /// The differences between the shown output and the recorded one.
    pub fn differences(&self) -> Vec<String> {
        let differs = |piece: &PagePiece| match piece {
            PagePiece::Commands {
                text,
                shown: Some(shown),
                said,
                ..
            } => normalized_text::describe_difference(
                &format!("{}:\n{text}\n", self.name),
                shown,
                said,
            ),
            _ => None,
        };
        self.pieces.iter().filter_map(differs).collect()
    }

    /// The page with the recorded output.
    pub fn text(&self) -> String {
        let mut whole = String::new();
        for piece in &self.pieces {
            match piece {
                PagePiece::Prose(text) => whole += text,
                PagePiece::Commands {
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

/// The problem with the end of a block: an unexpected failure, or no failure where the page expects one.
fn describe_unexpected_end(fails: bool, code: &str, said: &str) -> Option<String> {
    let is_failure =
        |line: &&str| FAILURES.iter().any(|f| line.starts_with(f)) || line.contains(IN_VAIN);
    let failures = said.lines().filter(is_failure).count();
    match (fails, code, failures) {
        (false, "0", 0) => None,
        (false, "0", _) => Some("a command failed".to_owned()),
        (false, code, _) => Some(format!("exit code {code}")),
        (true, "0", _) => Some("the last command should have been refused".to_owned()),
        // Exactly one refusal.
        (true, _, 1) if !said.contains(IN_VAIN) => None,
        (true, ..) => Some("something else failed than the page announces".to_owned()),
    }
}

/// The problems of a page with one block, after this prose, with this exit code and output.
#[cfg(test)]
fn run_single_block(prose: &str, code: u8, said: &str) -> Vec<String> {
    let text = format!("{prose}\n\n{COMMANDS}true{END}\n\n{OUTPUT}{said}{END}\n");
    let mut page = TaskPage::parse(Path::new("page.md"), &text);
    let wrong = page.record_output(&format!("{said}\n{END_OF_BLOCK} 1 {code}\n"));
    assert_eq!(page.text(), text);
    wrong
}

#[test]
fn unannounced_command_failure_is_an_error() {
    let refused = "Error from server (Forbidden): no";
    let in_vain = "error: timed out waiting for the condition on baremetalservers/web";
    assert_eq!(run_single_block("Do:", 0, "done"), [""; 0]);
    assert_eq!(run_single_block(FAILS, 1, refused), [""; 0]);
    for (prose, code, said) in [
        ("Do:", 1, refused),
        ("Do:", 0, refused),
        ("Do:", 0, in_vain),
        ("Do:", 1, ""),
        (FAILS, 0, "done"),
        (FAILS, 1, in_vain),
        (FAILS, 1, "Error: one\nError: two"),
    ] {
        assert_eq!(
            run_single_block(prose, code, said).len(),
            1,
            "{prose} {code} {said}"
        );
    }
}

#[test]
fn last_exit_code_of_each_block_is_checked() {
    let block = |command: &str| format!("Do:\n\n{COMMANDS}{command}{END}\n\n");
    let text = block("true") + &block("true\n(exit 7)") + &block("(exit 7)\ntrue");
    let mut page = TaskPage::parse(Path::new("page.md"), &text);
    let script = ["-c", &page.script()];
    let output = std::process::Command::new("bash")
        .args(script)
        .output()
        .unwrap();
    let wrong = page.record_output(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(wrong, ["exit code 7:\ntrue\n(exit 7)\n"]);
}
