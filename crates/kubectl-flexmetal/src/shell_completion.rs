//! Completion of commands, flags and names while they are typed. kubectl starts this executable under another name for
//! it, the scripts of `completion` with a variable. Errors are silent: they would be printed into the line.

use crate::{
    cli::Cli,
    context::{GlobalArgs, ListScope, PluginContext},
    exit::PluginError,
    objects::{self, ObjectKind},
};
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::{
    engine::{ArgValueCompleter, CompletionCandidate, complete},
    env::Shells,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, config::Kubeconfig};
use std::{
    ffi::{OsStr, OsString},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// The executable.
const PROGRAM: &str = "kubectl-flexmetal";
/// The name under which kubectl starts it.
const KUBECTL_COMPLETE: &str = "kubectl_complete-flexmetal";
/// The variable with which a shell's script starts it.
pub const SHELL_VARIABLE: &str = "COMPLETE";
/// How long names may take: somebody waits with a finger on the key.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);
/// Ends the answer to kubectl: no file names.
const NO_FILES: &str = ":4\n";

/// What a word may name.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    /// Objects of these kinds. The first one is meant by a name without a kind.
    Objects(Vec<ObjectKind>),
    /// Namespaces of the cluster.
    Namespaces,
    /// Contexts of the kubeconfig.
    Contexts,
}

type Names = Arc<dyn Fn(Wanted) -> Vec<String> + Send + Sync>;

/// The answer of a process that was started for completion; `shell`: the value of [`SHELL_VARIABLE`]. None: it was
/// started for something else. Must run on a runtime of several threads.
pub fn answer(args: &[OsString], shell: Option<&OsStr>) -> Option<Vec<u8>> {
    let (program, words) = args.split_first()?;
    if Path::new(program).file_stem() == Some(OsStr::new(KUBECTL_COMPLETE)) {
        let names = names_of_cluster(words);
        return Some(answer_kubectl(words, &names).into_bytes());
    }
    let shell = shell.filter(|shell| !shell.is_empty())?.to_str()?;
    let mut typed = words.iter().skip_while(|word| *word != "--").skip(1);
    let Some(program) = typed.next() else {
        return registration(shell).ok().map(String::into_bytes);
    };
    let words: Vec<OsString> = typed.cloned().collect();
    let names = names_of_cluster(&words);
    let typed = std::iter::once(program.clone()).chain(words).collect();
    let mut answer = Vec::new();
    let directory = std::env::current_dir().ok();
    // An error leaves the answer empty.
    let _ = Shells::builtins().completer(shell)?.write_complete(
        &mut with_names(Cli::command(), "", &names),
        typed,
        directory.as_deref(),
        &mut answer,
    );
    Some(answer)
}

/// The script that makes a shell ask this executable.
pub fn registration(shell: &str) -> Result<String, PluginError> {
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(shell) else {
        return Err(PluginError::Usage(format!("no completion for {shell}")));
    };
    let mut script = Vec::new();
    completer.write_registration(SHELL_VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    String::from_utf8(script).map_err(|error| PluginError::Other(error.to_string()))
}

/// The answer to kubectl: one candidate a line, with its help after a tab, and a last line for its shell script.
/// `words`: what was typed after `kubectl flexmetal`; the last one is to be completed.
fn answer_kubectl(words: &[OsString], names: &Names) -> String {
    let mut typed = vec![OsString::from(PROGRAM)];
    typed.extend_from_slice(words);
    if words.is_empty() {
        typed.push(OsString::new());
    }
    let at = typed.len() - 1;
    let is_flag = words
        .last()
        .is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let mut command = with_names(Cli::command(), "", names);
    let directory = std::env::current_dir().ok();
    let candidates = complete(&mut command, typed, at, directory.as_deref()).unwrap_or_default();
    let lines = candidates.iter().filter_map(|candidate| {
        let value = candidate.get_value().to_str()?;
        (is_flag || !value.starts_with('-')).then(|| to_line(value, candidate))
    });
    lines.collect::<String>() + NO_FILES
}

fn to_line(value: &str, candidate: &CompletionCandidate) -> String {
    let help = candidate.get_help().map(ToString::to_string);
    let first = help.as_deref().and_then(|help| help.lines().next());
    match first.filter(|line| !line.is_empty()) {
        Some(line) => format!("{value}\t{}\n", line.replace('\t', " ")),
        None => format!("{value}\n"),
    }
}

/// The command, whose words that name something are completed from these names. `parent`: the first of the commands
/// around it.
fn with_names(command: Command, parent: &str, names: &Names) -> Command {
    let command = command.mut_args(|arg| match find_wanted(parent, &arg) {
        Some(wanted) => {
            let names = Arc::clone(names);
            arg.add(ArgValueCompleter::new(move |word: &OsStr| {
                complete_name(word, &wanted, &names)
            }))
        }
        None => arg,
    });
    command.mut_subcommands(|inner| {
        let parent = match parent {
            "" => inner.get_name().to_owned(),
            parent => parent.to_owned(),
        };
        with_names(inner, &parent, names)
    })
}

/// What the words of an argument name.
fn find_wanted(command: &str, arg: &Arg) -> Option<Wanted> {
    use ObjectKind::{
        BareMetalServer, ClusterProviderAccount, DedicatedHost, IpWhitelist, ProviderAccount,
    };
    match arg.get_id().as_str() {
        "namespace" | "operator_namespace" => Some(Wanted::Namespaces),
        "context" => Some(Wanted::Contexts),
        "account" => Some(Wanted::Objects(vec![ProviderAccount])),
        "cluster_account" => Some(Wanted::Objects(vec![ClusterProviderAccount])),
        "name" | "names" if arg.is_positional() => Some(Wanted::Objects(match command {
            "rescue" | "reinstall" | "hardware" | "root-password" => vec![BareMetalServer],
            "power" => vec![BareMetalServer, DedicatedHost],
            "hosts" => vec![DedicatedHost],
            "acknowledge" => vec![
                BareMetalServer,
                IpWhitelist,
                ProviderAccount,
                ClusterProviderAccount,
            ],
            _ => ObjectKind::ALL.to_vec(),
        })),
        _ => None,
    }
}

/// The names that continue the word, which may have a kind before a slash.
fn complete_name(word: &OsStr, wanted: &Wanted, names: &Names) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else {
        return Vec::new();
    };
    let (prefix, wanted, word) = match (wanted, word.split_once('/')) {
        (Wanted::Objects(kinds), Some((kind, rest))) => match ObjectKind::parse(kind) {
            Some(parsed) if kinds.contains(&parsed) => {
                (format!("{kind}/"), Wanted::Objects(vec![parsed]), rest)
            }
            _ => return Vec::new(),
        },
        (wanted, _) => (String::new(), wanted.clone(), word),
    };
    let found = names(wanted)
        .into_iter()
        .filter(|name| name.starts_with(word));
    found
        .map(|name| CompletionCandidate::new(format!("{prefix}{name}")))
        .collect()
}

/// Asks the cluster and the kubeconfig that the words typed so far name.
fn names_of_cluster(words: &[OsString]) -> Names {
    let typed = words.split_last().map_or(words, |(_, before)| before);
    let typed: Arc<[OsString]> = typed.into();
    Arc::new(move |wanted| {
        let Some(mut global) = parse_global(&typed) else {
            return Vec::new();
        };
        global.request_timeout = NAMES_TIMEOUT;
        if wanted == Wanted::Contexts {
            return read_contexts(&global);
        }
        let found = async { tokio::time::timeout(NAMES_TIMEOUT, list(&global, &wanted)).await };
        let handle = tokio::runtime::Handle::current();
        let found = tokio::task::block_in_place(|| handle.block_on(found));
        found.unwrap_or_default()
    })
}

/// The flags of every command among the words, of which the rest need not be complete.
fn parse_global(words: &[OsString]) -> Option<GlobalArgs> {
    let typed = std::iter::once(OsString::from(PROGRAM)).chain(words.iter().cloned());
    let command = Cli::command().ignore_errors(true);
    let matches = command.try_get_matches_from(typed).ok()?;
    GlobalArgs::from_arg_matches(&matches).ok()
}

fn read_contexts(global: &GlobalArgs) -> Vec<String> {
    let read = match &global.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let contexts = read.map(|file| file.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| context.name).collect()
}

/// The names, each once and sorted. What cannot be read has none.
async fn list(global: &GlobalArgs, wanted: &Wanted) -> Vec<String> {
    let Ok(context) = PluginContext::connect(global).await else {
        return Vec::new();
    };
    let mut names: Vec<String> = match wanted {
        Wanted::Objects(kinds) => {
            let scope = ListScope {
                namespace: Some(context.namespace.clone()),
                selector: None,
            };
            let lists = kinds
                .iter()
                .map(|kind| objects::list(&context, *kind, &scope));
            let lists = futures::future::join_all(lists).await;
            let found = lists.into_iter().flat_map(Result::unwrap_or_default);
            let named = found.map(|object| match kinds.first() == Some(&object.kind()) {
                true => object.name().to_owned(),
                false => {
                    format!(
                        "{}/{}",
                        object.kind().as_str().to_ascii_lowercase(),
                        object.name()
                    )
                }
            });
            named.collect()
        }
        Wanted::Namespaces => {
            let found = context.list_of_cluster::<Namespace>().await;
            let found = found.unwrap_or_default();
            found.iter().map(ResourceExt::name_any).collect()
        }
        Wanted::Contexts => Vec::new(),
    };
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake() -> Names {
        Arc::new(|wanted| match wanted {
            Wanted::Objects(kinds) if kinds == [ObjectKind::BareMetalServer] => {
                vec!["web".into(), "db".into()]
            }
            Wanted::Objects(kinds) if kinds == [ObjectKind::SshKey] => vec!["admin".into()],
            Wanted::Objects(_) => vec!["any".into()],
            Wanted::Namespaces => vec!["team-a".into()],
            Wanted::Contexts => vec!["prod".into()],
        })
    }

    /// The candidates without their help.
    fn candidates(typed: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = typed.iter().map(Into::into).collect();
        let answer = answer_kubectl(&words, &fake());
        let mut lines: Vec<_> = answer.lines().collect();
        assert_eq!(lines.pop(), Some(":4"), "{answer}");
        let values = lines.iter().filter_map(|line| line.split('\t').next());
        values.map(str::to_owned).collect()
    }

    #[test]
    fn commands_come_with_their_help_and_without_flags() {
        let answer = answer_kubectl(&[], &fake());
        let has = |start: &str| answer.lines().any(|line| line.starts_with(start));
        assert!(
            has("status\tShow why objects are not ready") && !has("-"),
            "{answer}"
        );
        assert_eq!(candidates(&["expl"]), ["explain"]);
    }

    #[test]
    fn flags_are_completed_once_a_dash_is_typed() {
        assert_eq!(candidates(&["wait", "--time"]), ["--timeout"]);
        assert_eq!(
            candidates(&["wait", "web", "--for", ""]),
            ["ready", "released"]
        );
        assert!(candidates(&["status", "--out"]).contains(&"--output".to_owned()));
    }

    #[test]
    fn names_are_completed_by_what_the_command_takes() {
        assert_eq!(candidates(&["rescue", ""]), ["web", "db"]);
        assert_eq!(candidates(&["rescue", "w"]), ["web"]);
        assert_eq!(candidates(&["explain", ""]), ["any"]);
        assert_eq!(candidates(&["explain", "skey/"]), ["skey/admin"]);
        assert!(candidates(&["explain", "pod/"]).is_empty());
        assert!(candidates(&["rescue", "skey/"]).is_empty());
        assert_eq!(candidates(&["status", "-n", ""]), ["team-a"]);
        assert_eq!(candidates(&["--context", "p"]), ["prod"]);
    }

    #[test]
    fn flags_that_were_typed_choose_the_cluster() {
        let words = ["explain", "-n", "team-a", "--context", "prod", "--kind"].map(Into::into);
        let global = parse_global(&words).unwrap();
        assert_eq!(global.namespace.as_deref(), Some("team-a"));
        assert_eq!(global.context.as_deref(), Some("prod"));
    }

    #[test]
    fn only_the_completion_names_are_answered() {
        let args = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
        assert_eq!(answer(&args(&["kubectl-flexmetal", "status"]), None), None);
        assert_eq!(
            answer(&args(&["kubectl-flexmetal"]), Some(OsStr::new(""))),
            None
        );
        let kubectl = answer(&args(&["/bin/kubectl_complete-flexmetal", "stat"]), None).unwrap();
        let kubectl = String::from_utf8(kubectl).unwrap();
        assert!(
            kubectl.starts_with("status\t") && kubectl.ends_with(":4\n"),
            "{kubectl}"
        );
        let script = answer(&args(&["kubectl-flexmetal"]), Some(OsStr::new("bash"))).unwrap();
        assert_eq!(script, registration("bash").unwrap().into_bytes());
    }

    #[test]
    fn every_shell_script_starts_this_program() {
        use clap::ValueEnum as _;
        for shell in clap_complete::Shell::value_variants() {
            let script = registration(&shell.to_string()).unwrap();
            assert!(script.contains(PROGRAM), "{shell}: {script}");
        }
        assert!(registration("tcsh").is_err());
    }
}
