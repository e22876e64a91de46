//! What is told in events: what happened, and which conditions turned.

use crate::cause::AS_READY;
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
    let news = news.filter_map(|(kind, severity, action)| {
        let of = |kind: Type| after.iter().find(|c| c.type_ == kind.as_str());
        let condition = of(*kind)?;
        let told = match condition.message == AS_READY {
            true => of(Type::Ready)?,
            false => condition,
        };
        Some(News {
            severity: *severity,
            reason: Reason::parse(&condition.reason)?.as_str(),
            action,
            note: told.message.clone(),
        })
    });
    let mut news: Vec<News> = news.collect();
    // A deletion that needs a user waits, too.
    news.dedup_by(|a, b| (a.reason, &a.note) == (b.reason, &b.note));
    news
}

/// Whether an event is a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// A person should look.
    Warning,
}
