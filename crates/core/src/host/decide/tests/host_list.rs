//! Observation, absence and ownership of a host.

use super::*;
use crate::{explanation::ReadyState, host_record::against};

#[test]
fn new_host_reads_its_log_once() {
    let new = Case::new().refreshed();
    let first = new.decide();
    assert_eq!(first.effect, None, "it is written first");
    assert!(first.requeue_once_written);
    let (status, _) = first.status(&new.0.subject, jiff::Timestamp::UNIX_EPOCH);
    let seen = new.object(|o| o.status = Some(status));
    assert_eq!(seen.effect(), Some(HostEffect::ReadLog { pages: 3 }));
    assert_eq!(seen.reason(), Some(Reason::Progressing));
    // A process that stops here has recorded nothing, so the next one observes the host first, with its real log.
    assert_eq!(seen.0.subject.status().records.install, None);
    let known = seen.log(HostLog::default()).written();
    assert_eq!(known.install_status().log, Some(HostLog::default()));
    assert_eq!(known.reason(), Some(Reason::Available));
    assert_eq!(known.effect(), None);
    let idle = NOW - secs(1) + secs(300);
    assert_eq!(known.decide().wants, Some((ListKind::Hosts, idle)));
    let status = known.0.subject.status();
    assert_eq!(status.name.as_deref(), Some("db"));
    assert_eq!(status.server_id, Some(70));
    assert_eq!(
        status.account_ref,
        Some(PinnedAccount::from_reference(None))
    );
    assert_eq!(status.records.account_id.as_deref(), Some("account-id-1"));
}

#[test]
fn initial_spec_counts_as_done() {
    let case = Case::new()
        .installs(5)
        .spec(|s| s.power = Some(Power::PoweredOff));
    let case = case.log(HostLog::default()).written();
    assert_eq!(
        (case.effect(), case.reason()),
        (None, Some(Reason::Available))
    );
    assert_eq!(case.install_status().revision, 5);
    assert_eq!(case.power_record().desired, Some(Power::PoweredOff));
    // The status of an earlier object with this name does not count.
    let copied = case.object(|o| o.metadata.uid = Some("uid-2".into()));
    let copied = copied
        .installs(9)
        .spec(|s| s.power = Some(Power::PoweredOn))
        .written();
    assert_eq!(copied.effect(), None);
    assert_eq!(copied.install_status().revision, 9);
}

#[test]
fn small_uptime_drift_is_not_written() {
    let up = |case: Case, uptime: i64| case.shown(|h| h.uptime = Some(uptime)).written();
    let since = |case: &Case| case.0.subject.status().up_since.map(|at| at.0.as_second());
    let first = up(Case::known(), 1000);
    let before = since(&first);
    assert_eq!(before, Some(WALL - 1 - 1000));
    assert_eq!(since(&up(first.clone(), 1290)), before);
    assert_eq!(since(&up(first.clone(), 710)), before);
    assert_ne!(since(&up(first, 1400)), before);
}

#[test]
fn host_is_gone_after_grace_and_two_lists() {
    let gone = Case::known().list(NOW - secs(1), &[]).refreshed();
    assert_eq!(
        gone.reason_and_state(),
        (Some(Reason::ServerNotFound), Some(ReadyState::Reconciling))
    );
    assert_eq!(
        gone.decide().wants,
        Some((ListKind::Hosts, NOW - secs(1) + secs(60)))
    );
    let later = |after: u64| {
        let began = NOW - secs(1) + secs(after);
        gone.clone()
            .list(began, &[])
            .at(began + secs(1))
            .refreshed()
    };
    assert_eq!(
        later(599).reason_and_state().1,
        Some(ReadyState::Reconciling)
    );
    assert_eq!(later(600).reason_and_state().1, Some(ReadyState::Stalled));
    let back = later(700)
        .list(NOW + secs(800), &[host()])
        .at(NOW + secs(801));
    assert_eq!(back.refreshed().reason(), Some(Reason::Available));
}

#[test]
fn on_demand_server_is_not_managed_as_host() {
    for change in [
        (|h: &mut Host| h.kind = HostKind::OnDemand) as fn(&mut Host),
        |h| h.order_id = Some("77".into()),
    ] {
        let case = Case::known().installs(1).shown(change);
        assert_eq!(
            case.reason_and_state(),
            (Some(Reason::InvalidSpec), Some(ReadyState::Stalled))
        );
        assert_eq!(case.effect(), None);
        assert!(
            case.message().contains("BareMetalServer"),
            "{}",
            case.message()
        );
    }
}

#[test]
fn the_older_of_two_objects_has_the_host() {
    let case = Case::known().installs(1).owned_by_another();
    let decision = case.decide();
    assert_eq!(case.reason(), Some(Reason::OwnershipConflict));
    assert_eq!((decision.effect, decision.wants), (None, None));
}

#[test]
fn what_is_no_dedicated_host_is_sent_nothing() {
    for kind in [HostKind::Virtual, HostKind::Other(Some(9))] {
        let case = Case::known().installs(1).shown(|h| h.kind = kind);
        assert_eq!(
            (case.effect(), case.reason_and_state()),
            (None, (Some(Reason::InvalidSpec), Some(ReadyState::Stalled)))
        );
        let mut live = host();
        live.kind = kind;
        assert!(against(&live, 7, Some(70), None).is_some());
    }
    // Some records have no kind.
    let bare = Case::known()
        .installs(1)
        .shown(|h| h.kind = HostKind::Other(None));
    assert!(matches!(bare.effect(), Some(HostEffect::Install(_))));
}

/// A reason, and the change that leads to it.
type OwnershipLoss = (Reason, fn(Case) -> Case);

/// Another object owns the host, or the account does not permit it for this object.
fn ownership_losses() -> [OwnershipLoss; 3] {
    [
        (Reason::OwnershipConflict, |case| case.owned_by_another()),
        (Reason::NotAllowed, |case| {
            case.terms(Terms::Entry(Arc::default()))
        }),
        (Reason::NotAllowed, |case| {
            case.terms(Terms::Refused("no; have it added".into()))
        }),
    ]
}

/// The object may use the host again.
fn regain_ownership(case: Case) -> Case {
    case.facts(|f| f.conflicting_owners.owner = None)
        .terms(Terms::Own)
}

#[test]
fn requests_without_ownership_count_as_done() {
    for (reason, lose) in ownership_losses() {
        let unowned = lose(Case::known()).written();
        assert_eq!(unowned.reason(), Some(reason));
        let unowned = unowned.installs(9).written();
        assert_eq!(unowned.reason(), Some(reason));
        let back = regain_ownership(unowned).written();
        assert_eq!(
            (back.effect(), back.reason()),
            (None, Some(Reason::Available)),
            "{reason}"
        );
        assert_eq!(back.install_status().revision, 9);
        // Later requests count.
        let next = back.installs(10);
        assert!(
            matches!(next.effect(), Some(HostEffect::Install(_))),
            "{reason}"
        );
    }
}

/// After a process start, namespace labels arrive one by one.
#[test]
fn unknown_ownership_keeps_the_request() {
    let [(_, lose), ..] = ownership_losses();
    let asked = lose(Case::known().installs(9)).facts(|f| f.is_owner_known = false);
    let unowned = asked.written();
    assert_eq!(
        (unowned.effect(), unowned.reason()),
        (None, Some(Reason::Pending))
    );
    assert_eq!(unowned.install_status().revision, 0);
    let free = regain_ownership(unowned).facts(|f| f.is_owner_known = true);
    assert!(free.effect().is_some());
}

#[test]
fn unowned_edit_in_downtime_counts_as_done() {
    for (reason, lose) in ownership_losses() {
        // The operator was down from the edit until the ownership returned.
        let back = regain_ownership(lose(Case::known()).written().installs(9));
        assert_eq!(back.effect(), None, "{reason}");
        let back = back.written();
        assert_eq!(
            (back.effect(), back.reason()),
            (None, Some(Reason::Available)),
            "{reason}"
        );
        assert_eq!(back.install_status().revision, 9);
    }
}

#[test]
fn unowned_power_change_sends_nothing() {
    let off = |case: Case| case.spec(|s| s.power = Some(Power::PoweredOff));
    let recorded = off(Case::known()).written();
    assert_eq!(
        recorded.power_record().command.unwrap().state,
        PowerState::Recorded
    );
    for (reason, lose) in ownership_losses() {
        // A recorded command, and a change while unowned. A change during downtime follows below.
        let meanwhile = off(lose(Case::known()).written()).written();
        for unowned in [lose(recorded.clone()).written(), meanwhile] {
            assert_eq!((unowned.effect(), unowned.reason()), (None, Some(reason)));
            let back = regain_ownership(unowned).written();
            assert_eq!(back.reason(), Some(Reason::Available), "{reason}");
            assert_eq!((back.effect(), back.power_record().command), (None, None));
            // Later requests count.
            let next = back.spec(|s| s.power = Some(Power::PoweredOn)).written();
            assert!(matches!(next.effect(), Some(HostEffect::Power { .. })));
        }
        let away = regain_ownership(off(lose(Case::known()).written()));
        assert_eq!(away.effect(), None, "{reason}");
        let back = away.written();
        assert_eq!(
            (back.effect(), back.reason()),
            (None, Some(Reason::Available))
        );
        assert_eq!(back.power_record().desired, Some(Power::PoweredOff));
    }
}

#[test]
fn sent_install_survives_ownership_loss() {
    for (reason, lose) in ownership_losses() {
        let sent = sent(1, None);
        let before = sent.0.install().unwrap().last;
        let unowned = lose(sent.installs(9)).written();
        assert_eq!(unowned.install_status().last, before, "{reason}");
        assert_eq!(unowned.install_status().performed(), 9, "{reason}");
        // The search for its outcome continues.
        let back = regain_ownership(unowned).written();
        assert_eq!(back.reason(), Some(Reason::Reinstalling), "{reason}");
        let over = back.shown(|h| h.install_status = InstallStatus::Created);
        let last = over.written().install_status().last.unwrap();
        assert!(last.is_seen && last.is_open(), "{reason}");
    }
}

#[test]
fn impossible_start_time_is_not_shown() {
    let since = |uptime: i64| {
        let case = Case::known().shown(|h| h.uptime = Some(uptime)).written();
        case.0.subject.status().up_since
    };
    assert!(since(86_400).is_some());
    for uptime in [
        i64::MAX,
        100_000_000_000,
        WALL,
        WALL - 946_684_800,
        0,
        -5,
        i64::MIN,
    ] {
        assert_eq!(since(uptime), None, "{uptime}");
    }
}

#[test]
fn cluster_account_polls_only_granted_hosts() {
    let entry = |hosts: &[i64]| {
        Terms::Entry(Arc::new(AllowedNamespaces {
            name: "shop".into(),
            namespaces: vec!["shop".into()],
            allow_adoption: Some(true),
            host_ids: hosts.to_vec(),
            ..AllowedNamespaces::default()
        }))
    };
    let of_cluster = Case::new().spec(|s| {
        s.account_ref = Some(AccountRef {
            kind: Some(AccountKind::ClusterProviderAccount),
            name: Some("shared".into()),
        });
    });
    let denied = of_cluster.clone().terms(entry(&[8]));
    let decision = denied.decide();
    assert_eq!(
        denied.reason_and_state(),
        (Some(Reason::NotAllowed), Some(ReadyState::Stalled))
    );
    assert_eq!((decision.effect, decision.wants), (None, None));
    let granted = of_cluster.terms(entry(&[8, 7])).log(HostLog::default());
    assert_eq!(granted.written().reason(), Some(Reason::Available));
    // A grant that is withdrawn later blocks the request.
    let taken = Case::known().installs(1).terms(entry(&[]));
    assert_eq!(
        (taken.effect(), taken.reason()),
        (None, Some(Reason::NotAllowed))
    );
}

#[test]
fn changed_server_or_account_sends_nothing() {
    let requested = Case::known().installs(1);
    assert!(matches!(requested.effect(), Some(HostEffect::Install(_))));
    let other = requested.clone().shown(|h| h.server_id = Some(71));
    assert_eq!(
        (other.effect(), other.reason()),
        (None, Some(Reason::ServerNotFound))
    );
    assert_eq!(
        other.decide().status.server_id,
        Some(70),
        "the record stays"
    );
    let moved = |case: Case| case.view(|v| v.account_id = Some("account-id-2".into()));
    let elsewhere = moved(requested.clone()).shown(|h| h.server_id = Some(71));
    assert_eq!(
        (elsewhere.effect(), elsewhere.reason()),
        (None, Some(Reason::AccountChanged))
    );
    let unknown = moved(requested.clone()).shown(|h| h.server_id = None);
    assert_eq!(
        (unknown.effect(), unknown.reason()),
        (None, Some(Reason::AccountChanged))
    );
    assert_eq!(
        unknown.decide().status.records.install.unwrap().performed(),
        0
    );
    // The serverID is equal, but another account may use the same numbers, so nothing is erased.
    let same = moved(requested.clone()).written();
    assert_eq!(
        (same.effect(), same.reason()),
        (None, Some(Reason::AccountChanged))
    );
    let switched = Case::known().spec(|s| s.power = Some(Power::PoweredOff));
    assert_eq!(moved(switched).reason(), Some(Reason::AccountChanged));
    // Without a pending request the object accepts the new account, and later requests count.
    let same = moved(Case::known()).facts(|f| {
        f.key = Some(KeyLookup::Ready(StoredKey {
            uid: "key-uid".into(),
            account_id: "account-id-2".into(),
            ..stored()
        }));
    });
    let same = same.written();
    assert_eq!(same.reason(), Some(Reason::Available));
    assert!(matches!(
        same.installs(1).effect(),
        Some(HostEffect::Install(_))
    ));
}

#[test]
fn deleted_host_object_only_loses_its_finalizer() {
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    let case = Case::known().installs(1);
    let case = case.object(|o| o.metadata.deletion_timestamp = Some(time));
    let decision = case.decide();
    assert_eq!((decision.effect, decision.explanation), (None, None));
}

#[test]
fn outdated_host_list_is_ignored() {
    let before = Case::known().facts(|f| f.subject.leader_since = NOW);
    assert_eq!(before.decide().wants, Some((ListKind::Hosts, NOW)));
    let changed = Case::known().own(|own| own.changed = Some(NOW + secs(1)));
    let decision = changed.decide();
    assert_eq!(decision.wants, Some((ListKind::Hosts, NOW + secs(1))));
    assert_eq!(decision.explanation, None);
}

#[test]
fn requested_host_poll_is_acknowledged() {
    let asked = |began: Duration| {
        let case = Case::known().list(began, &[host()]);
        let case = case.facts(|f| {
            f.subject
                .memory
                .request
                .record_request(Some("w1"), NOW - secs(40));
        });
        case.decide().status.last_handled_reconcile_at
    };
    assert_eq!(asked(NOW - secs(41)), None);
    assert_eq!(asked(NOW - secs(1)).as_deref(), Some("w1"));
}
