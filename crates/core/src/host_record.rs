//! What the record of a dedicated host says of requests to it.

use api::{command::PowerAction, host::LONGEST_INSTALL_WORD, host_install::HostInstallHistory};
use hosting_types::host::{Host, HostKind, InstallStatus};

/// Whether a host is an on-demand server, which is ordered and released: another kind looks after those.
pub fn is_on_demand(host: &Host) -> bool {
    host.kind == HostKind::OnDemand || host.order_id.is_some()
}

/// Whether the provider says that it is something else than a dedicated host: a virtual machine, or what nobody knows here. A
/// record that does not say what it is counts as a host.
pub fn is_of_another_kind(host: &Host) -> bool {
    matches!(host.kind, HostKind::Virtual | HostKind::Other(Some(_)))
}

/// Why a host cannot take a request now, as it was read right before; None: it can. `known`: what is on record of its
/// installations.
pub fn against(
    host: &Host,
    number: u64,
    server_id: Option<i64>,
    known: Option<&HostInstallHistory>,
) -> Option<String> {
    if is_on_demand(host) {
        return Some(format!("Host {number} is an on-demand server"));
    }
    if is_of_another_kind(host) {
        return Some(format!("Host {number} is not a dedicated host"));
    }
    let is_other = host
        .server_id
        .zip(server_id)
        .is_some_and(|(now, seen)| now != seen);
    if host.id.0 != number || is_other {
        return Some(format!("Host {number} is another server than was seen"));
    }
    is_under_way(host, known).then(|| {
        let word = word(&host.install_status).unwrap_or_default();
        format!("Host {number} is being installed (the provider says {word:?})")
    })
}

/// Whether a host is being installed. A word that nobody knows here says so, until it has stayed for too long.
pub fn is_under_way(host: &Host, known: Option<&HostInstallHistory>) -> bool {
    let unknown = known.and_then(|known| known.unknown.as_ref());
    let stuck = unknown.filter(|unknown| unknown.is_stuck);
    let is_stuck = stuck.is_some_and(|stuck| word(&host.install_status) == Some(&stuck.word));
    host.install_status.is_under_way() && !is_stuck
}

/// The provider's word for the last installation, no longer than status holds: it is compared with what stands there, so it
/// is never cut, not even where each of its bytes is stored as six.
pub fn word(status: &InstallStatus) -> Option<&str> {
    match status {
        InstallStatus::None => None,
        InstallStatus::Created => Some("created"),
        InstallStatus::Installing => Some("installing"),
        InstallStatus::Finished => Some("finished"),
        InstallStatus::Failed => Some("failed"),
        InstallStatus::Other(word) => Some(&word[..word.floor_char_boundary(LONGEST_INSTALL_WORD)]),
    }
}

/// Whether a host is switched as an action leaves it, by the provider's word for that; None: the word does not say. The words
/// are not described, and clients have seen two pairs.
pub fn is_switched(word: &str, action: PowerAction) -> Option<bool> {
    let is_one_of = |words: [&str; 2]| words.iter().any(|it| word.eq_ignore_ascii_case(it));
    let is_on = match (is_one_of(["running", "on"]), is_one_of(["stopped", "off"])) {
        (true, _) => true,
        (_, true) => false,
        (false, false) => return None,
    };
    let goes_on = matches!(action, PowerAction::PowerOn | PowerAction::Reboot);
    Some(is_on == goes_on)
}
