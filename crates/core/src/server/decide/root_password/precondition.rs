//! The preconditions of the password effects, on the object as just read.

use super::{
    super::{super::facts::ServerFacts, outputs},
    deletes_at,
};
use crate::resolved_account::Purpose;
use api::{
    install::InstallHistory,
    outputs::OutputKind,
    root_password::{Installed, RootPasswordRecord},
    server::BareMetalServerStatus,
};
use hosting_types::ServerStatus;

/// Whether a status shows a delivered server that is not being re-installed.
pub(super) fn shows_delivered(status: &BareMetalServerStatus) -> bool {
    let open = status
        .records
        .install
        .as_ref()
        .and_then(InstallHistory::unfinished);
    status.provider_status.as_deref() == Some(ServerStatus::Delivered.as_str()) && open.is_none()
}

/// The record of this installation, if it is still the last one. The inner none: nothing is recorded.
fn find_password_record(fresh: &ServerFacts, of: &Installed) -> Option<Option<RootPasswordRecord>> {
    let status = fresh.status();
    let (last, _) = Installed::last(&status)?;
    let record = status
        .records
        .root_password
        .filter(|_| fresh.has_own_record());
    (last == *of).then_some(record.filter(|record| record.installation() == *of))
}

/// Whether the Secret may be checked for this password.
pub fn may_find(fresh: &ServerFacts, of: &Installed, secret: &str) -> bool {
    let named = fresh.object.spec.root_password.as_ref();
    let is_stored =
        |record: Option<RootPasswordRecord>| record.is_some_and(|record| record.secret.is_some());
    named.is_some_and(|wanted| wanted.secret_ref.name == secret)
        && find_password_record(fresh, of).is_some_and(|record| !is_stored(record))
        && outputs::may_create(fresh, &outputs::output_record(OutputKind::Secret, secret))
        && !fresh.deleting()
}

/// Whether the password may be fetched.
pub fn may_fetch(fresh: &ServerFacts, of: &Installed, secret: &str) -> bool {
    may_find(fresh, of, secret)
        && shows_delivered(&fresh.status())
        && fresh.account.usable(Purpose::Change).is_ok()
        && fresh
            .known_policies()
            .is_some_and(|policies| policies.may_send())
}

/// When the Secret was due for deletion, in seconds since 1970. None: it stays.
pub fn deletion_due_at(fresh: &ServerFacts, of: &Installed, secret: &str) -> Option<i64> {
    let record = fresh
        .status()
        .records
        .root_password
        .filter(|_| fresh.has_own_record())?;
    let is_it = record.installation() == *of && record.secret.as_deref() == Some(secret);
    let at = deletes_at(fresh.object.spec.root_password.as_ref(), &record)?;
    let at = at.0.as_second();
    (is_it && record.deleted_at.is_none() && at <= fresh.steady_wall()).then_some(at)
}
