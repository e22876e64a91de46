//! Checks messages for users: no internal words, and an end that says what comes next.

use crate::{
    explanation::{AS_READY, AS_SYNCED},
    wording::{LONGEST_MESSAGE, MOST_NAMES},
};
use api::conditions::{DesiredCondition, Type};

/// Words that only the authors of the operator understand. Names of fields such as `order_tag` are allowed.
const INTERNAL: [&str; 16] = [
    "mark", "marks", "marked", "control", "controls", "settle", "settled", "settles", "sweep",
    "sweeps", "epoch", "epochs", "intent", "intents", "twin", "twins",
];

/// Phrases that say nothing, or what is unknown.
const EMPTY: [&str; 9] = [
    "nobody is needed",
    "in its time",
    "trying again and again",
    "read again by itself",
    "within seconds",
    "within minutes",
    "within a minute",
    "after a minute",
    "a minute or two",
];

/// Parts of shell commands, which belong in the docs.
const COMMANDS: [&str; 6] = ["kubectl", "helm ", "--type=", "=FILE", "curl ", " | "];

/// Phrases that say when, or after what, the operator continues.
const NEXT: [&str; 25] = [
    "again every",
    "checked every ",
    "checked within ",
    "checked again ",
    "checked at ",
    "retrying every ",
    "retrying at ",
    "retrying within ",
    "retrying once ",
    "retrying after ",
    "again at",
    "again after",
    "again within",
    "again, at",
    "again once",
    "at the latest",
    "until ",
    "as soon as",
    "once ",
    "when ",
    "follows",
    "goes on at ",
    "waiting for ",
    "waited for ",
    "looked for every ",
];

/// What a message may ask a user to do.
const ACTS: [&str; 34] = [
    "acknowledge ",
    "add ",
    "ask ",
    "change ",
    "check ",
    "choose ",
    "correct ",
    "create ",
    "delete ",
    "find ",
    "free ",
    "give ",
    "grant ",
    "have ",
    "join ",
    "keep ",
    "let ",
    "look ",
    "make ",
    "move ",
    "name ",
    "narrow ",
    "put ",
    "raise ",
    "read ",
    "release ",
    "remove ",
    "rename ",
    "restore ",
    "set ",
    "take ",
    "use ",
    "wait ",
    "write ",
];

/// Longest first clause, in characters.
const LONGEST_CLAUSE: usize = 80;

/// The part that says what is wrong or happening.
fn first_clause(message: &str) -> &str {
    let ends = ["; ", ". "].map(|end| message.find(end).unwrap_or(message.len()));
    &message[..ends[0].min(ends[1])]
}

/// Whether a message begins with a capital letter, a digit, a quoted text, or the name of a field such as `spec.os`.
fn is_capitalised(message: &str) -> bool {
    let word = message.split([' ', ':']).next().unwrap_or_default();
    let is_field = word.contains('.') || word.contains(char::is_uppercase);
    !message.starts_with(char::is_lowercase) || is_field
}

/// The largest number of parts between commas in one clause.
fn most_parts(message: &str) -> usize {
    let clauses = message.split("; ").flat_map(|part| part.split(". "));
    let lists = clauses.flat_map(|clause| clause.split('('));
    let parts = lists.map(|list| list.split(", ").count());
    parts.max().unwrap_or_default()
}

/// What is wrong with a message.
pub(crate) fn complaints(condition: &DesiredCondition) -> Vec<&'static str> {
    let message = condition.message.as_str();
    let bad = matches!(
        condition.kind,
        Type::Reconciling
            | Type::Stalled
            | Type::Suspended
            | Type::DeletionBlocked
            | Type::OrphansFound
            | Type::ReleaseLimitReached
    );
    let is_healthy = match condition.status {
        Some(status) => status != bad,
        None => false,
    };
    let mut found = Vec::new();
    if message.is_empty() {
        if !is_healthy {
            found.push("says nothing");
        }
        return found;
    }
    let mut words = message.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
    if words.any(|word| INTERNAL.contains(&word.to_lowercase().as_str())) {
        found.push("has an internal word");
    }
    if EMPTY.iter().any(|phrase| message.contains(phrase)) {
        found.push("has an empty phrase");
    }
    let of = |phrase: &str| message.matches(phrase).count();
    if of("growing intervals") != of("growing intervals of at most ") {
        found.push("has no longest interval");
    }
    if message.contains(char::is_control) || message.trim() != message {
        found.push("is not one clean line");
    }
    if message.chars().count() > LONGEST_MESSAGE {
        found.push("is too long");
    }
    if first_clause(message).chars().count() > LONGEST_CLAUSE {
        found.push("has a long first clause");
    }
    if !is_capitalised(message) {
        found.push("begins with a small letter");
    }
    if most_parts(message) > MOST_NAMES {
        found.push("has a long list");
    }
    if COMMANDS.iter().any(|command| message.contains(command)) {
        found.push("has a command");
    }
    if !is_healthy && ![AS_READY, AS_SYNCED].contains(&message) && !says_what_is_next(condition) {
        found.push("does not end with what comes next");
    }
    found
}

/// Whether the last part of a message says what comes next: when the operator continues, or what a user has to do.
fn says_what_is_next(condition: &DesiredCondition) -> bool {
    let message = condition.message.to_lowercase();
    let parts = message.split("; ").flat_map(|part| part.split(": "));
    let parts = parts.flat_map(|part| part.split(". "));
    let parts: Vec<&str> = parts.collect();
    let last = &parts[parts.len().saturating_sub(2)..];
    let says = |phrases: &[&str]| last.iter().any(|p| phrases.iter().any(|n| p.contains(n)));
    let asks = || {
        let starts = |part: &&str| {
            let part = part.trim_start_matches("or, ").trim_start_matches("or ");
            ACTS.iter()
                .any(|act| part.starts_with(act) || part.contains(&format!(", {act}")))
        };
        last.iter().any(starts)
    };
    match condition.kind {
        // Only a user ends these, so it is not enough to say when they continue.
        Type::Stalled | Type::Suspended => asks(),
        _ => says(&NEXT) || asks(),
    }
}

/// A text that more than two conditions have.
pub(crate) fn find_repeated_message(conditions: &[DesiredCondition]) -> Option<&str> {
    let count = |text: &str| conditions.iter().filter(|c| c.message == text).count();
    let mut texts = conditions.iter().map(|c| c.message.as_str());
    let is_pointer = |text: &str| text.is_empty() || [AS_READY, AS_SYNCED].contains(&text);
    texts.find(|text| !is_pointer(text) && count(text) > 2)
}

#[test]
fn a_bad_message_is_found() {
    use api::Reason;
    let of = |kind, status, message: &str| {
        complaints(&DesiredCondition::new(
            kind,
            status,
            Reason::InvalidSpec,
            message,
        ))
    };
    let none: [&str; 0] = [];
    assert_eq!(of(Type::Ready, true, ""), none);
    assert_eq!(of(Type::Stalled, false, ""), none);
    assert_eq!(of(Type::Ready, false, ""), ["says nothing"]);
    assert_eq!(of(Type::Stalled, true, "It broke; remove it"), none);
    for (message, why) in [
        ("It broke", "does not end with what comes next"),
        (
            "It broke; tried again every 15s",
            "does not end with what comes next",
        ),
        ("The mark is gone; remove it", "has an internal word"),
        ("Now nobody is needed; wait for it", "has an empty phrase"),
        ("Remove it\nand go", "is not one clean line"),
        ("Say so; delete it: kubectl delete bms web", "has a command"),
        ("Say so; delete it: --type=merge -p", "has a command"),
        ("Say so; remove it by helm uninstall web", "has a command"),
        ("Say so; remove it: get web | delete", "has a command"),
        ("Say so; remove it: curl https://host", "has a command"),
        ("it broke; remove it", "begins with a small letter"),
        ("No a, b, c, d, e, f; remove it", "has a long list"),
    ] {
        assert_eq!(of(Type::Stalled, true, message), [why], "{message}");
    }
    for message in ["spec.os is empty; set it", "No a, b, c and 9 more; set it"] {
        assert_eq!(of(Type::Stalled, true, message), none, "{message}");
    }
    let long = format!("It {}; remove it", "b".repeat(LONGEST_CLAUSE));
    let found = of(Type::Stalled, true, &long);
    assert_eq!(found, ["has a long first clause"]);
    let long = format!("It broke; remove {}", "b".repeat(LONGEST_MESSAGE));
    assert_eq!(of(Type::Stalled, true, &long), ["is too long"]);
}
