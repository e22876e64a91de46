//! What is told in events: what happened, and which conditions turned.

use api::{
    Reason,
    conditions::{self, Type},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Something that people should hear of beside the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether it is a warning.
    pub severity: Severity,
    /// Why, or what happened: a fixed word.
    pub reason: &'static str,
    /// What was done or tried: a word such as `Order`.
    pub action: &'static str,
    /// In words.
    pub note: String,
}

/// The events of conditions that people wait for or must act on: those that are True now and were
/// not before, with the action that each stands for.
pub fn turned(
    before: &[Condition],
    after: &[Condition],
    watched: &[(Type, Severity, &'static str)],
) -> Vec<News> {
    let turned =
        |kind: Type| conditions::is_true(after, kind) && !conditions::is_true(before, kind);
    let news = watched.iter().filter(|(kind, ..)| turned(*kind));
    news.filter_map(|(kind, severity, action)| {
        let condition = after.iter().find(|c| c.type_ == kind.as_str())?;
        Some(News {
            severity: *severity,
            reason: Reason::parse(&condition.reason)?.as_str(),
            action,
            note: condition.message.clone(),
        })
    })
    .collect()
}

/// Whether an event is a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// A person should look.
    Warning,
}
