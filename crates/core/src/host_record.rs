//! What the provider's record of a dedicated host says: its kind, its installation, its power.

use api::{command::PowerAction, host::LONGEST_INSTALL_WORD, host_install::HostInstallHistory};
use hosting_types::host::{Host, HostKind, InstallStatus};

/// Whether a host is an on-demand server, which is ordered and released: kind BareMetalServer manages those.
pub fn is_on_demand(host: &Host) -> bool {
    host.kind == HostKind::OnDemand || host.order_id.is_some()
}

/// Whether the provider says that this is no dedicated host: a virtual machine, or an unknown kind. A record without a
/// kind counts as a host.
pub fn is_of_another_kind(host: &Host) -> bool {
    matches!(host.kind, HostKind::Virtual | HostKind::Other(Some(_)))
}

/// Why a host, as read right before, cannot take a request now; None: it can. `known`: the recorded installations.
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

/// Whether a host is being installed. An unknown word means that it is, until the word stays for too long.
pub fn is_under_way(host: &Host, known: Option<&HostInstallHistory>) -> bool {
    let unknown = known.and_then(|known| known.unknown.as_ref());
    let stuck = unknown.filter(|unknown| unknown.is_stuck);
    let is_stuck = stuck.is_some_and(|stuck| word(&host.install_status) == Some(&stuck.word));
    host.install_status.is_under_way() && !is_stuck
}

/// The provider's word for the last installation, cut to what status stores. It is compared with the stored word, so
/// status never cuts it, even if each byte is stored as six.
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

/// Whether the power of a host is as this action leaves it, by the provider's word; None: the word does not say. The
/// API does not document the words; clients have seen two pairs.
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
