//! Events: what happened, and which conditions became True.

use crate::explanation::AS_READY;
use api::{
    Reason,
    conditions::{self, Type},
    install::InstallEnd,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Something to report as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Whether it is a warning.
    pub severity: Severity,
    /// Why, or what happened.
    pub reason: EventReason,
    /// What was done or tried: a word such as `Order`.
    pub action: &'static str,
    /// In words.
    pub note: String,
}

/// The events of conditions that users wait for or must act on: of each that became True, with its action.
pub fn condition_events(
    before: &[Condition],
    after: &[Condition],
    watched: &[(Type, Severity, &'static str)],
) -> Vec<EventRecord> {
    let turned =
        |kind: Type| conditions::is_true(after, kind) && !conditions::is_true(before, kind);
    let news = watched.iter().filter(|(kind, ..)| turned(*kind));
    let news = news.filter_map(|(kind, severity, action)| {
        let of = |kind: Type| after.iter().find(|c| c.type_ == kind.as_str());
        let condition = of(*kind)?;
        let source = match condition.message == AS_READY {
            true => of(Type::Ready)?,
            false => condition,
        };
        Some(EventRecord {
            severity: *severity,
            reason: Reason::parse(&condition.reason)?.into(),
            action,
            note: source.message.clone(),
        })
    });
    let mut news: Vec<EventRecord> = news.collect();
    // Two conditions may have the same reason and text, such as Stalled and DeletionBlocked; one event is enough.
    news.dedup_by(|a, b| (a.reason, &a.note) == (b.reason, &b.note));
    news
}

/// The events of an installation of `what`: the provider accepted it, and it is done. `before` and `now`: whether it is
/// accepted, and its end.
pub fn install_events(
    what: &str,
    before: (bool, Option<InstallEnd>),
    now: (bool, Option<InstallEnd>),
) -> Vec<EventRecord> {
    let began = (now.0 && !before.0).then(|| {
        ServerEvent::Reinstalling.news(format!(
            "The provider started to install {what}; this erases the disks"
        ))
    });
    let is_done = now.1 == Some(InstallEnd::Finished) && before.1.is_none();
    let done = is_done.then(|| ServerEvent::Reinstalled.news(format!("Installed {what}")));
    began.into_iter().chain(done).collect()
}

/// The reason of an event. The docs have an entry for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventReason {
    /// A condition has this reason now.
    Condition(Reason),
    /// A step in the life of a server.
    Server(ServerEvent),
    /// An account uses another base URL or key.
    KeyAccepted,
    /// Another operator serves the account.
    OperatorConflict,
    /// Entries of a whitelist that was deleted may stay at the provider.
    Retained,
    /// Servers or hosts still name an SshKey that was deleted.
    StillReferenced,
}

impl EventReason {
    /// All that are neither the reason of a condition nor a server event, for documentation and tests.
    pub const OTHERS: [Self; 4] = [
        Self::KeyAccepted,
        Self::OperatorConflict,
        Self::Retained,
        Self::StillReferenced,
    ];

    /// The name as it appears in events and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Condition(reason) => reason.as_str(),
            Self::Server(step) => step.as_str(),
            Self::KeyAccepted => "KeyAccepted",
            Self::OperatorConflict => "OperatorConflict",
            Self::Retained => "Retained",
            Self::StillReferenced => "StillReferenced",
        }
    }
}

impl From<Reason> for EventReason {
    fn from(reason: Reason) -> Self {
        Self::Condition(reason)
    }
}

impl From<ServerEvent> for EventReason {
    fn from(step: ServerEvent) -> Self {
        Self::Server(step)
    }
}

/// A step in the life of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerEvent {
    /// The provider accepted the order.
    Ordered,
    /// The answer to the order was lost, so it is unknown whether a server exists.
    AnswerLost,
    /// After a lost answer, the server with the tag of the order was found.
    FoundByTag,
    /// The object adopted an existing server.
    Adopted,
    /// A Linux server is installed without any SSH key.
    NoSshKey,
    /// The server is delivered and has an address.
    Delivered,
    /// The provider refused the order.
    Refused,
    /// The spec differs from the server, and the operator does not act on it.
    PendingChanges,
    /// The provider accepted a re-installation.
    Reinstalling,
    /// The server is installed again.
    Reinstalled,
    /// A requested re-installation did not take place.
    NotReinstalled,
    /// The server failed, and the object orders another one in its place.
    Replaced,
    /// The object deletes itself within a day, or within an hour.
    Expiring,
    /// The object deleted itself.
    Expired,
    /// The root password is not stored, and is available for at most six hours, or for one.
    PasswordExpiring,
    /// The root password was not stored, and is no longer available.
    PasswordMissed,
    /// The object is deleted, and the release of its server begins after a delay.
    ReleaseDelayed,
    /// The object records the release of its server; from now on the release goes on to its end.
    ReleaseStarted,
    /// The server is released.
    Released,
    /// The server stays at the provider, by policy.
    Retained,
    /// The server failed, and the provider did not accept its release.
    NotReleased,
}

impl ServerEvent {
    /// Every step, for documentation and tests.
    pub const ALL: [Self; 21] = [
        Self::Ordered,
        Self::AnswerLost,
        Self::FoundByTag,
        Self::Adopted,
        Self::NoSshKey,
        Self::Delivered,
        Self::Refused,
        Self::PendingChanges,
        Self::Reinstalling,
        Self::Reinstalled,
        Self::NotReinstalled,
        Self::Replaced,
        Self::Expiring,
        Self::Expired,
        Self::PasswordExpiring,
        Self::PasswordMissed,
        Self::ReleaseDelayed,
        Self::ReleaseStarted,
        Self::Released,
        Self::Retained,
        Self::NotReleased,
    ];

    /// The reason of its event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordered => "Ordered",
            Self::AnswerLost => "AnswerLost",
            Self::FoundByTag => "FoundByTag",
            Self::Adopted => "Adopted",
            Self::NoSshKey => "NoSSHKey",
            Self::Delivered => "Delivered",
            Self::Refused => "Refused",
            Self::PendingChanges => "PendingChanges",
            Self::Reinstalling => "Reinstalling",
            Self::Reinstalled => "Reinstalled",
            Self::NotReinstalled => "NotReinstalled",
            Self::Replaced => "Replaced",
            Self::Expiring => "Expiring",
            Self::Expired => "Expired",
            Self::PasswordExpiring => "PasswordExpiring",
            Self::PasswordMissed => "PasswordMissed",
            Self::ReleaseDelayed => "ReleaseDelayed",
            Self::ReleaseStarted => "ReleaseStarted",
            Self::Released => "Released",
            Self::Retained => "Retained",
            Self::NotReleased => "NotReleased",
        }
    }

    /// As an event: a warning if it is about money or needs a user.
    pub fn news(self, note: impl Into<String>) -> EventRecord {
        let (severity, action) = match self {
            Self::Ordered | Self::FoundByTag => (Severity::Normal, "Order"),
            Self::AnswerLost | Self::Refused | Self::NoSshKey => (Severity::Warning, "Order"),
            Self::Adopted => (Severity::Normal, "Adopt"),
            Self::Delivered => (Severity::Normal, "Deliver"),
            Self::PendingChanges => (Severity::Warning, "Compare"),
            Self::Reinstalling | Self::NotReinstalled => (Severity::Warning, "Reinstall"),
            Self::Reinstalled => (Severity::Normal, "Reinstall"),
            Self::Replaced => (Severity::Warning, "Replace"),
            Self::Expiring | Self::Expired => (Severity::Warning, "Expire"),
            Self::PasswordExpiring | Self::PasswordMissed => (Severity::Warning, "StorePassword"),
            Self::ReleaseDelayed | Self::NotReleased => (Severity::Warning, "Release"),
            Self::ReleaseStarted | Self::Released | Self::Retained => (Severity::Normal, "Release"),
        };
        EventRecord {
            severity,
            reason: self.into(),
            action,
            note: note.into(),
        }
    }
}

/// Whether an event is a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// A user should check it.
    Warning,
}
