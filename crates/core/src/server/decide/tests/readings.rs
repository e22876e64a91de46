//! What kstatus, and the tools that build on it, read for each reason of a server, by phase of its life.

use super::{
    existing::with_status,
    expiry::ending,
    external::{named, observed, tag_of, through_cluster_account},
    order::{catalogue, plan},
    outputs,
    power::unswitched,
    protocol::{alone, created, elsewhere, gone, lost, open, stripped},
    read_only::read_only,
    reinstall::{self, ended, installing, late, wishes},
    release::{answered, deleted, release_limited},
    root_password,
    terms::on_terms,
    *,
};
use crate::{
    account::order_supply::Demand,
    last_error::LastError,
    readings::StatusReading,
    server::{
        memory::ReleaseAnswer,
        tag_changes::{TagChange, TagEnd},
    },
};
use api::{FailurePolicy, install::InstallEnd};
use hosting_types::{
    catalogue::Availability,
    quota::{LocationQuota, QuotaUsage},
};
use serde_json::json;

/// It has earlier conditions, so that waiting is reported.
fn with_earlier_conditions(case: Case) -> Case {
    let wanted = Explanation::waits(Reason::Pending, "").conditions();
    let shown = api::conditions::merge(
        &[],
        &wanted,
        api::conditions::Generations::same(Some(3)),
        Timestamp::MIN,
    );
    case.object(|o| o.status.get_or_insert_default().conditions = shown)
}

fn blocked(reason: Reason) -> Case {
    with_earlier_conditions(Case::new()).blocked(reason)
}

/// The account releases with its last valid key, and orders nothing.
fn no_orders(reason: Reason) -> Case {
    Case::new().view(|v| v.no_orders = Some((reason, "No; correct it; retrying within 1m".into())))
}

fn keys(explanation: Explanation) -> Case {
    Case::new().facts(|f| f.installation = Some(Err(explanation)))
}

/// An effect failed repeatedly.
fn failing(case: Case, reason: Reason) -> Case {
    case.memory(|m| {
        for _ in 0..3 {
            m.backoff.fail(RUNNING - secs(600), secs(1));
        }
        m.last_error = Some(LastError {
            reason,
            message: "No".into(),
        });
    })
}

fn quota_used_up() -> Case {
    let usage = QuotaUsage {
        instance_type_id: None,
        instance_type: "small".into(),
        quota_type: "onDemand".into(),
        contract_id: None,
        quota: Some(1),
        usage: Some(1),
    };
    let quota = LocationQuota {
        location_id: None,
        location: "here".into(),
        usages: vec![usage],
    };
    let catalogue = Catalogue {
        quotas: vec![quota],
        ..Catalogue::default()
    };
    Case::new().view(|v| v.catalogue = Some((secs(990), Arc::new(catalogue))))
}

/// An order that created no server, so recently that the next one waits.
fn paced(outcome: OrderOutcome) -> Case {
    let case = Case::new().ordered(Some(outcome), None).answered_at(999);
    case.listed(1000).facts(|f| f.now.wall = EPOCH)
}

/// A refused order, before the poll of stock and quota.
fn unlooked() -> Case {
    let asked = Demand::new("here", "small", None, false);
    paced(OrderOutcome::Refused).view(|v| v.refused = vec![(asked, secs(995))])
}

/// Created before this process became leader, moments ago.
fn in_doubt() -> Case {
    let case = Case::new().loose().met(960);
    case.facts(|f| f.leader_since = secs(980))
}

/// Its metadata was removed five times in a row.
fn contested(case: Case) -> Case {
    case.memory(|m| (0..5).for_each(|n| m.restore_backoff.record_restore(RUNNING - secs(100 - n))))
}

/// Its server lost the cluster tag and has the maximum number of tags.
fn crowded(case: Case) -> Case {
    let tags: Vec<String> = (0..59).map(|n| format!("tag-{n}")).collect();
    let mut tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let own = own_tag();
    tags.push(&own);
    case.showing(server(1, ServerStatus::Delivered, &tags))
}

/// One of its tags was added five times in a row, and removed each time.
fn undone(case: Case) -> Case {
    let change = TagChange {
        uuid: uuid(1),
        tag: "later".into(),
        adds: true,
        end: TagEnd::Made,
    };
    case.memory(|m| (0..5).for_each(|n| m.tags.record_change(&change, RUNNING - secs(100 - n))))
}

/// Its server has so many tags that none is added.
fn without_tag_capacity(case: Case) -> Case {
    let tags: Vec<String> = (0..56).map(|n| format!("tag-{n}")).collect();
    let (cluster, own) = (cluster().tag(), own_tag());
    let tags = tags.iter().map(String::as_str);
    let tags: Vec<&str> = tags.chain([cluster.as_str(), own.as_str()]).collect();
    case.showing(server(1, ServerStatus::Delivered, &tags))
}

fn cases_without_server() -> Vec<Case> {
    let limit = (Reason::LimitReached, "No room; raise the limit".to_owned());
    let missing = |message: &str| Explanation::missing(Reason::ReferenceNotFound, message);
    let no_account = || Case::new().facts(|f| f.account = unsaid("default"));
    let no_secret = || blocked(Reason::ReferenceNotFound);
    vec![
        Case::new().unlisted(),
        blocked(Reason::Pending),
        in_doubt(),
        Case::new().met(500),
        Case::new().empty().waited_for(Reason::WaitingForListing),
        Case::new(),
        Case::new().spec(|s| s.suspend = Some(true)),
        no_account(),
        no_account().waited_for(Reason::AccountNotFound),
        no_secret(),
        no_secret().waited_for(Reason::ReferenceNotFound),
        keys(missing("No Secret; create it")),
        keys(missing("No Secret; create it")).waited_for(Reason::ReferenceNotFound),
        keys(Explanation::waits(
            Reason::ReferenceNotReady,
            "Not yet; the order follows when it is",
        )),
        Case::new().facts(|f| {
            if let ResolvedAccount::Found { terms, .. } = &mut f.account {
                *terms = crate::account::terms::Terms::Refused("Not this one; add it".into());
            }
        }),
        on_terms(Case::new(), &json!({"locations": ["Elsewhere"]})),
        Case::new().facts(|f| {
            f.account = ResolvedAccount::NotServed("ClusterProviderAccount main".into())
        }),
        no_orders(Reason::AccountNotReady),
        no_orders(Reason::ReferenceNotFound),
        no_orders(Reason::ReferenceNotFound).waited_for(Reason::ReferenceNotFound),
        no_orders(Reason::InvalidKey),
        blocked(Reason::InvalidKey),
        blocked(Reason::InvalidEndpoint),
        blocked(Reason::KeyRejected),
        blocked(Reason::AccountChanged),
        blocked(Reason::InvalidSpec),
        blocked(Reason::ProviderUnreachable),
        blocked(Reason::RateLimited),
        Case::new().spec(|s| s.hostname = Some("a_b".into())),
        Case::new().view(|v| v.catalogue = catalogue(plan(Availability::Unavailable))),
        quota_used_up(),
        Case::new().facts(|f| f.denied = Some(limit)),
        unlooked(),
        paced(OrderOutcome::Refused),
        paced(OrderOutcome::NotSent),
        failing(Case::new(), Reason::WriteFailed),
        failing(Case::new(), Reason::ChecksFailed),
        Case::new().ordered(None, None),
        alone(open()),
        open().suspecting(1),
        alone(Case::new().met(300)),
        lost(),
        elsewhere(open()),
        Case::new().with_previous_servers(&[1]),
        observed(Case::new()),
        named(&[]),
        named(&[]).ordered(Some(OrderOutcome::Adopting), Some(5)),
        named(&[]).named(5, None),
        named(&["fmo-cluster:fedcba9876543210"]),
        through_cluster_account(named(&[]), None),
        through_cluster_account(named(&[&tag_of("bank")]), None),
        ending(Case::new(), 0),
        read_only(Case::new()),
    ]
}

fn cases_with_server() -> Vec<Case> {
    let ready = || with_status(ServerStatus::Delivered);
    let mut cases = vec![
        with_status(ServerStatus::Provisioning),
        with_status(ServerStatus::Provisioning)
            .spec(|s| s.os.as_mut().unwrap().slug = "later".into()),
        ready().shown(|s| s.addresses.clear()),
        ready(),
        ready().spec(|s| s.os.as_mut().unwrap().slug = "later".into()),
        ready().spec(|s| s.tags = vec!["later".into()]),
        undone(ready().spec(|s| s.tags = vec!["later".into()])),
        without_tag_capacity(ready().spec(|s| s.tags = vec!["later".into()])),
        ready().spec(|s| s.suspend = Some(true)),
        ready().spec(|s| (s.suspend, s.tags) = (Some(true), vec!["later".into()])),
        outputs::taken(),
        installing(),
        late(),
        ended(InstallEnd::Failed),
        ended(InstallEnd::Unknown),
        ended(InstallEnd::Refused),
        ended(InstallEnd::NotRepeated),
        ended(InstallEnd::Finished),
        wishes(reinstall::delivered(1), 2).spec(|s| s.deletion_protection = Some(true)),
        wishes(reinstall::delivered(1), 2)
            .facts(|f| f.commands = RunningCommand::Command("reboot".into())),
        unswitched(),
        observed(named(&[])),
        observed(named(&[])).spec(|s| s.os.as_mut().unwrap().slug = "later".into()),
        ready()
            .view(|v| v.is_unreachable = true)
            .waited_for(Reason::AccountNotReady),
        with_status(ServerStatus::Provisioning)
            .object(|o| o.metadata.creation_timestamp = Some(time(START - 9000)))
            .shown(|s| s.created_at = Some(START - 9000)),
        with_status(ServerStatus::Failed),
        with_status(ServerStatus::Failed).spec(|s| s.failure_policy = Some(FailurePolicy::Replace)),
        with_status(ServerStatus::Released),
        ending(ready(), 0),
        ending(ready(), 0).spec(|s| s.deletion_protection = Some(true)),
        ready().with(2, ServerStatus::Created),
        stripped(&[]),
        shared(),
        gone(),
        elsewhere(created()),
        contested(ready()),
        crowded(ready()),
        read_only(ready().spec(|s| s.tags = vec!["later".into()])),
    ];
    cases.extend(root_password::condition_cases());
    cases
}

/// Its server has the tag of another object, too.
fn shared() -> Case {
    with_status(ServerStatus::Delivered).shown(|s| s.tags.push(other_tag()))
}

/// The request to re-install it has an unknown outcome.
fn unanswered(object: &mut BareMetalServer) {
    let install = object
        .status
        .as_mut()
        .and_then(|s| s.records.install.as_mut());
    let last = install.and_then(|install| install.last.as_mut()).unwrap();
    (last.outcome, last.command_id, last.state) = (None, None, None);
}

fn being_deleted() -> Vec<Case> {
    let delivered = || deleted(ServerStatus::Delivered);
    let retain = |s: &mut BareMetalServerSpec| s.deletion_policy = Some(DeletionPolicy::Retain);
    vec![
        delivered().spec(|s| s.release_delay = Some(Interval(secs(3600)))),
        release_limited(delivered()),
        installing().deleting().object(unanswered),
        delivered().facts(|f| f.commands = RunningCommand::Command("reboot".into())),
        deleted(ServerStatus::Releasing).begun(1),
        answered(ServerStatus::Provisioning, ReleaseAnswer::Refused, 0),
        answered(ServerStatus::Delivered, ReleaseAnswer::Refused, 0),
        deleted(ServerStatus::Released),
        delivered()
            .spec(retain)
            .showing(retained(1, ServerStatus::Delivered)),
        on_terms(
            delivered().spec(retain),
            &json!({"deletionPolicies": ["Release"]}),
        ),
        delivered().spec(|s| s.deletion_protection = Some(true)),
        delivered().spec(|s| s.suspend = Some(true)),
        observed(delivered()),
        shared().deleting(),
        answered(ServerStatus::Failed, ReleaseAnswer::Refused, 0),
        failing(deleted(ServerStatus::Delivered), Reason::WriteFailed),
        failing(deleted(ServerStatus::Delivered), Reason::ChecksFailed),
        failing(deleted(ServerStatus::Delivered), Reason::RequestRefused),
        answered(ServerStatus::Delivered, ReleaseAnswer::Refused, 0)
            .spec(|s| s.suspend = Some(true)),
        crowded(delivered().spec(retain)),
        delivered().blocked(Reason::KeyRejected),
        alone(gone()).deleting(),
        stripped(&[]).deleting(),
        open().deleting(),
        alone(open()).deleting(),
        read_only(delivered()),
    ]
}

/// All cases, in the order of the page.
pub(crate) fn every() -> Vec<StatusReading> {
    let stages = [
        ("without a machine", cases_without_server()),
        ("with a machine", cases_with_server()),
        ("being deleted", being_deleted()),
    ];
    let mut readings = Vec::new();
    for (stage, cases) in stages {
        for case in cases {
            let desired = case.decide().desired;
            let conditions = desired.conditions;
            assert!(
                conditions.iter().any(|c| c.kind == Type::Ready),
                "{stage}: says nothing: {case:?}"
            );
            let reading = StatusReading::new(stage, &conditions, case.0.deleting());
            let observed = desired.status.observed_generation;
            let generation = case.0.object.metadata.generation;
            readings.push(reading.of_generation(observed, generation));
        }
    }
    readings
}
