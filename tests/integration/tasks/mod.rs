//! The pages of `docs/tasks`, played as a reader plays them: on one demo, one after the other, each command as it is
//! printed. What a person sees has to be what the page shows; events and log are kept beside this file.
//!
//! `make test-exhaustive` plays all of them, each slice of it some.
//!
//! `TRANSCRIPTS=write` writes pages and transcripts anew, so that a change of words is seen in review. A page on which
//! something failed that it does not announce stays as it is.

mod page;
mod recorded;
mod seen;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lab::rig::program;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use page::Page;
use recorded::Recorded;

/// Where the pages are.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tasks");
/// Where the transcripts are.
const TRANSCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/tasks");
/// What each page says first.
const WHERE: &str = "Run this only in the demo shell ([start](README.md)).";
/// One page takes this long at most. Each wait in it has a limit of its own.
const PAGE_WITHIN: Duration = Duration::from_secs(300);
/// A key that nobody has: what the reader's `~/.ssh/id_ed25519.pub` is on this machine.
const OWN_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z you@example.com\n";

/// A demo and a reader's home folder; both are gone when dropped.
struct Reader {
    folder: PathBuf,
    home: PathBuf,
    _parent: tempfile::TempDir,
}

impl Reader {
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

    /// Runs a script as the reader's shell would; returns what it said, errors too.
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
        // What a command reads from its own input must not be the rest of the script.
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

/// Whether kubectl says this to its makers: on a busy machine a watch of its own ends now and then.
fn is_own_log(line: &str) -> bool {
    line.starts_with(['I', 'W', 'E']) && line.contains(" reflector.go:")
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.folder.exists() {
            self.lab("down");
        }
    }
}

/// How long one takes, roughly.
const SECONDS: u32 = 10;

/// What the reader plays.
enum Played {
    Page(Page),
    /// The script that plays a server's life. On the same demo, which costs seconds to start.
    Life,
}

#[tokio::test]
#[ignore = "the slices take these pages"]
async fn every_task_goes_as_its_page_says() {
    let write = std::env::var("TRANSCRIPTS").is_ok_and(|word| word == "write");
    let all = pages().into_iter().map(Played::Page);
    let all: Vec<Played> = all.chain([Played::Life]).collect();
    let taken = match write {
        true => all,
        false => tiers::select("task pages", all, |_| Some(SECONDS)),
    };
    let reader = Reader::start();
    let mut wrong = Vec::new();
    for played in taken {
        let mut page = match played {
            Played::Page(page) => page,
            Played::Life => {
                wrong.extend(life_in_one_go(&reader).await);
                continue;
            }
        };
        let begin = Recorded::begin(&reader.folder);
        let said = reader.run(&page.script()).await;
        let broken = page.take(&said);
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
        wrong.extend(seen::difference(&page.name, &kept, &recorded));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Plays a server's life; what is wrong with it.
async fn life_in_one_go(reader: &Reader) -> Option<String> {
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
        17,
        "README.md and docs/tasks/README.md say seventeen"
    );
    let index = std::fs::read_to_string(Path::new(PAGES).join("README.md")).unwrap();
    for page in &pages {
        assert!(
            index.contains(&format!("({page}.md)")),
            "{page} is not in the list"
        );
        let transcript = Path::new(TRANSCRIPTS).join(format!("{page}.txt"));
        assert!(transcript.exists(), "{page} was never recorded");
        // Whoever comes by a link from elsewhere has to know.
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
fn pages() -> Vec<Page> {
    let files = std::fs::read_dir(PAGES)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| !file.ends_with("README.md")).collect();
    files.sort();
    files.iter().map(|file| Page::read(file)).collect()
}
