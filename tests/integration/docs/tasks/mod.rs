//! Runs the commands of `docs/tasks` on one demo, and compares output, events and log with pages and transcripts.
//! `make test-exhaustive` runs all pages. `TRANSCRIPTS=write` rewrites those without an unexpected failure.

pub(crate) mod normalized_text;
mod page;
mod transcript;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lab::rig::program;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use page::TaskPage;
use transcript::Transcript;

/// The folder of the pages.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tasks");
/// The folder of the transcripts.
const TRANSCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/docs/tasks");
/// The first sentence of each page.
const WHERE: &str = "Run this only in the demo shell ([start](README.md)).";
/// Maximum duration of a page. Each wait in it has its own limit.
const PAGE_WITHIN: Duration = Duration::from_secs(300);
/// An unused key, for the reader's `~/.ssh/id_ed25519.pub`.
const OWN_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z you@example.com\n";

/// A demo and a reader's home folder. Both are removed when dropped.
struct DemoReader {
    folder: PathBuf,
    home: PathBuf,
    _parent: tempfile::TempDir,
}

impl DemoReader {
    fn start() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let (folder, home) = (parent.path().join("demo"), parent.path().join("home"));
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/id_ed25519.pub"), OWN_KEY).unwrap();
        let reader = Self {
            folder,
            home,
            _parent: parent,
        };
        reader.lab("up");
        reader
    }

    fn lab(&self, step: &str) {
        let output = std::process::Command::new(program("lab"))
            .args(["demo", step])
            .env("FLEXMETAL_DEMO_DIR", &self.folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "demo {step}: {said}");
    }

    /// Runs a script as the reader's shell would. Returns its output, including errors.
    async fn run(&self, script: &str) -> String {
        let mut shell = Command::new("bash")
            .current_dir(&self.home)
            .env("HOME", &self.home)
            .env("DEMO", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // A command that reads its standard input must not read the rest of the script.
        let whole = format!("{{ . \"$DEMO/env\"\n{script}\n}} < /dev/null 2>&1\n");
        let mut input = shell.stdin.take().unwrap();
        input.write_all(whole.as_bytes()).await.unwrap();
        drop(input);
        let output = tokio::time::timeout(PAGE_WITHIN, shell.wait_with_output()).await;
        let output = output.expect("the page ends in time").unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let lines = said.split_inclusive('\n');
        lines.filter(|line| !is_own_log(line)).collect()
    }
}

/// Whether a line is kubectl's internal log: on a slow computer its watches sometimes end.
fn is_own_log(line: &str) -> bool {
    line.starts_with(['I', 'W', 'E']) && line.contains(" reflector.go:")
}

impl Drop for DemoReader {
    fn drop(&mut self) {
        if self.folder.exists() {
            self.lab("down");
        }
    }
}

/// Approximate duration of a page in seconds.
const SECONDS: u32 = 10;

/// What the reader runs.
enum TaskRun {
    Page(TaskPage),
    /// The script of a server's lifecycle. It uses the same demo, which takes seconds to start.
    Life,
}

#[tokio::test]
#[ignore = "the slices take these pages"]
async fn every_task_goes_as_its_page_says() {
    let write = std::env::var("TRANSCRIPTS").is_ok_and(|word| word == "write");
    let all = pages().into_iter().map(TaskRun::Page);
    let all: Vec<TaskRun> = all.chain([TaskRun::Life]).collect();
    let taken = match write {
        true => all,
        false => tiers::select("task pages", all, |_| Some(SECONDS)),
    };
    let reader = DemoReader::start();
    let mut wrong = Vec::new();
    for played in taken {
        let mut page = match played {
            TaskRun::Page(page) => page,
            TaskRun::Life => {
                wrong.extend(run_life_script(&reader).await);
                continue;
            }
        };
        let begin = Transcript::begin(&reader.folder).await;
        let said = reader.run(&page.script()).await;
        let broken = page.record_output(&said);
        let is_sound = broken.is_empty();
        let named = broken.into_iter();
        wrong.extend(named.map(|what| format!("{}: {what}", page.name)));
        let recorded = begin.end(&reader).await;
        let transcript = Path::new(TRANSCRIPTS).join(format!("{}.txt", page.name));
        if write {
            if is_sound {
                std::fs::write(&page.path, page.text()).unwrap();
                std::fs::write(&transcript, &recorded).unwrap();
            }
            continue;
        }
        let kept = std::fs::read_to_string(&transcript).unwrap_or_default();
        wrong.extend(page.differences());
        wrong.extend(normalized_text::describe_difference(
            &page.name, &kept, &recorded,
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the script of a server's lifecycle. Returns what is missing in its output.
async fn run_life_script(reader: &DemoReader) -> Option<String> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/life.sh");
    let said = reader.run(&format!("'{SCRIPT}'\necho \"exit $?\"")).await;
    let steps = [
        "condition met",
        "debian-13",
        "== reboot",
        "released\nexit 0",
    ];
    let missing = steps.into_iter().find(|step| !said.contains(step))?;
    Some(format!("examples/life.sh: no {missing:?} in\n{said}"))
}

#[test]
fn task_pages_and_transcripts_match() {
    let pages: Vec<String> = pages().into_iter().map(|page| page.name).collect();
    assert_eq!(
        pages.len(),
        18,
        "README.md and docs/tasks/README.md say eighteen"
    );
    let index = std::fs::read_to_string(Path::new(PAGES).join("README.md")).unwrap();
    for page in &pages {
        assert!(
            index.contains(&format!("({page}.md)")),
            "{page} is not in the list"
        );
        let transcript = Path::new(TRANSCRIPTS).join(format!("{page}.txt"));
        assert!(transcript.exists(), "{page} was never recorded");
        // Readers who follow a link to the page need this sentence.
        let text = std::fs::read_to_string(Path::new(PAGES).join(format!("{page}.md"))).unwrap();
        assert!(text.contains(WHERE), "{page} does not say: {WHERE}");
    }
    for file in std::fs::read_dir(TRANSCRIPTS).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let is_transcript = file.extension().is_some_and(|extension| extension == "txt");
        assert!(
            !is_transcript || pages.contains(&name),
            "{name} has no page"
        );
    }
}

/// All pages, in the order of their names.
fn pages() -> Vec<TaskPage> {
    let files = std::fs::read_dir(PAGES)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| !file.ends_with("README.md")).collect();
    files.sort();
    files.iter().map(|file| TaskPage::load(file)).collect()
}
