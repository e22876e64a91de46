//! How a file of requests is read.
//!
//! `# …` names the client that behaves so. `profiles: …` and `switch: name=value` set the
//! simulator up, `control PATH BODY` calls its control port, repeated if a
//! number comes first, `advance N` moves its clock. `> GET /path HTTP/1.1` starts a
//! request, with headers, a blank line and a body, `> observed …` one for a
//! single profile. `poll N every S` before it repeats it until what is expected
//! holds, which must be at the Nth time. `< 200` and the lines after it are
//! what is expected, `< observed 200` for a single profile:
//! `[0].status = "created"`, `length = 2`, `[0].uuid -> server` to keep a value.

/// What is expected of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// One profile alone.
    pub(crate) profile: Option<String>,
    pub(crate) status: u16,
    /// Path and value as they are written.
    pub(crate) equal: Vec<(String, String)>,
    /// Path and the name under which its value is kept.
    pub(crate) kept: Vec<(String, String)>,
}

/// A request and the expected answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) profile: Option<String>,
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<String>,
    /// How often it is sent until it holds, and the seconds between.
    pub(crate) poll: Option<(usize, u64)>,
    pub(crate) expected: Vec<Expected>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Request),
    /// Path on the control port, body, and how often.
    Steer(String, String, usize),
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// The client that behaves so.
    pub(crate) about: String,
    pub(crate) profiles: Vec<String>,
    pub(crate) switches: Vec<(String, String)>,
    pub(crate) steps: Vec<Step>,
}

/// A word for one profile in front of the rest.
fn profile(text: &str) -> (Option<String>, &str) {
    match text.split_once(' ') {
        Some((word @ ("document" | "observed"), rest)) => (Some(word.to_owned()), rest),
        _ => (None, text),
    }
}

/// Reads a file.
pub(crate) fn read(text: &str) -> Script {
    let mut script = Script::default();
    let mut poll = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(about) = line.strip_prefix('#') {
            script.about.push_str(about);
        } else if let Some(names) = line.strip_prefix("profiles: ") {
            script.profiles = names.split(' ').map(str::to_owned).collect();
        } else if let Some(switch) = line.strip_prefix("switch: ") {
            let (name, value) = switch.split_once('=').unwrap();
            script.switches.push((name.to_owned(), value.to_owned()));
        } else if let Some(seconds) = line.strip_prefix("advance ") {
            let body = format!("{{\"advanceSeconds\": {seconds}}}");
            script.steps.push(Step::Steer("clock".to_owned(), body, 1));
        } else if let Some(rest) = line.strip_prefix("control ") {
            let (first, rest) = rest.split_once(' ').unwrap();
            let (times, path, body) = match first.parse() {
                Ok(times) => {
                    let (path, body) = rest.split_once(' ').unwrap();
                    (times, path, body)
                }
                Err(_) => (1, first, rest),
            };
            let step = Step::Steer(path.to_owned(), body.to_owned(), times);
            script.steps.push(step);
        } else if let Some(rest) = line.strip_prefix("poll ") {
            let (times, seconds) = rest.split_once(" every ").unwrap();
            poll = Some((times.parse().unwrap(), seconds.parse().unwrap()));
        } else if let Some(rest) = line.strip_prefix("> ") {
            let (profile, line) = profile(rest);
            let mut request = Request {
                profile,
                line: line.to_owned(),
                poll: poll.take(),
                ..Request::default()
            };
            let mut in_body = false;
            while let Some(line) = lines.next_if(|line| !line.starts_with("< ")) {
                match (in_body, line.is_empty()) {
                    (false, true) => in_body = true,
                    (false, false) => request.headers.push(line.to_owned()),
                    (true, _) => request.body.push(line.to_owned()),
                }
            }
            while request.body.last().is_some_and(String::is_empty) {
                request.body.pop();
            }
            script.steps.push(Step::Send(request));
        } else if let Some(rest) = line.strip_prefix("< ") {
            let (profile, status) = profile(rest);
            let mut expected = Expected {
                profile,
                status: status.parse().unwrap(),
                equal: Vec::new(),
                kept: Vec::new(),
            };
            while let Some(line) = lines.next_if(|line| !line.is_empty() && !line.starts_with('<'))
            {
                if let Some((path, name)) = line.split_once(" -> ") {
                    expected.kept.push((path.to_owned(), name.to_owned()));
                } else {
                    let (path, value) = line.split_once(" = ").unwrap();
                    expected.equal.push((path.to_owned(), value.to_owned()));
                }
            }
            let Some(Step::Send(request)) = script.steps.last_mut() else {
                panic!("{line}: no request before it");
            };
            request.expected.push(expected);
        } else {
            assert!(line.is_empty(), "cannot be read: {line}");
        }
    }
    script
}
