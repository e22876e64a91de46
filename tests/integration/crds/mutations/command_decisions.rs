//! The operator's decisions on a command that the API server accepted.

use std::sync::Arc;
use std::time::Duration;

use api::{
    ServerCommand,
    command::{CommandIntent, CommandOutcome, CommandRecord, ListedCommands, PowerAction},
    names::OBJECT_FINALIZER,
    order::OrderAccount,
    references::{AccountKind, PinnedAccount},
    target::{Target, TargetKind},
};
use flexmetal_core::{
    account::{terms::Terms, view::AccountView},
    cluster_id::ClusterId,
    command::{
        decide::{CommandEffect, decide, needs_target},
        facts::{CommandFacts, TargetFact},
    },
    moment::Moment,
    ownership::ConflictingOwners,
    reconcile::{Memory, Subject},
    resolved_account::ResolvedAccount,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

const WALL: i64 = 1_790_001_000;
const SERVER_UUID: &str = "00000000-0000-4000-8000-000000000001";

/// Decides on the object in each state: new, sent, with unknown outcome, failed, and being deleted.
pub(super) fn decide_in_each_stage(object: &ServerCommand) {
    let new = facts(object.clone());
    let sent = |outcome, state: &str| {
        let mut facts = new.clone();
        let object = Arc::make_mut(&mut facts.subject.object);
        object.metadata.finalizers = Some(vec![OBJECT_FINALIZER.to_owned()]);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let record = CommandRecord {
            outcome,
            state: Some(state.to_owned()),
            ..CommandRecord::new_open(intent(uid, object.spec.action))
        };
        object.status.get_or_insert_default().records.sent = vec![record];
        facts
    };
    let accepted = Some(CommandOutcome::Accepted);
    let mut ending = sent(accepted, "pending");
    let meta = &mut Arc::make_mut(&mut ending.subject.object).metadata;
    meta.deletion_timestamp = Some(Time(at(WALL - 10)));
    let states = [
        sent(None, ""),
        sent(accepted, "pending"),
        sent(accepted, "finished"),
        sent(accepted, "failed"),
        new,
        ending,
    ];
    for facts in states {
        needs_target(&facts);
        let decision = decide(&facts);
        if let Some(CommandEffect::Send(new)) = &decision.effect {
            let target = match facts.kind() {
                TargetKind::BareMetalServer => SERVER_UUID,
                TargetKind::DedicatedHost => "7",
            };
            assert_eq!(new.server, target);
        }
        let (status, _) = decision.status(&facts.subject, at(WALL));
        serde_json::to_value(status).expect("a status is JSON");
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a moment")
}

fn intent(uid: String, action: PowerAction) -> CommandIntent {
    CommandIntent {
        uid,
        action,
        server: SERVER_UUID.to_owned(),
        attempt: "nonce".to_owned(),
        started_at: WALL - 900,
        send_by: WALL - 870,
        account: OrderAccount {
            kind: AccountKind::ProviderAccount,
            name: "default".to_owned(),
            uid: "account".to_owned(),
            account_id: "lineage".to_owned(),
            credentials_hash: "connection".to_owned(),
        },
        listed: ListedCommands::default(),
    }
}

/// A new object whose target allows the command.
fn facts(mut object: ServerCommand) -> CommandFacts {
    object.status.get_or_insert_default().account_ref = Some(PinnedAccount::from_reference(None));
    let server = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
        "metadata": {"name": "web", "namespace": "n", "uid": "server"},
        "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
        "status": {
            "uuid": SERVER_UUID, "providerStatus": "delivered",
            "accountRef": {"kind": "ProviderAccount", "name": "default"},
            "records": {"order": {"uid": "server", "seq": 1, "nonce": "a", "sendBy": "2026-01-01T00:00:00Z",
                "accountID": "account-id-1", "outcome": "Created", "server": SERVER_UUID}},
        },
    });
    let host = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
        "metadata": {"name": "web", "namespace": "n", "uid": "host"},
        "spec": {"hostID": 7},
        "status": {
            "accountRef": {"kind": "ProviderAccount", "name": "default"}, "records": {"accountID": "account-id-1"},
        },
    });
    let target = match object.spec.target_ref.kind() {
        TargetKind::BareMetalServer => {
            Target::Server(Arc::new(serde_json::from_value(server).expect("a server")))
        }
        TargetKind::DedicatedHost => {
            Target::Host(Arc::new(serde_json::from_value(host).expect("a host")))
        }
    };
    let now = Moment {
        wall: WALL,
        mono: Duration::from_secs(1000),
    };
    CommandFacts {
        subject: Subject {
            read_only: false,
            now,
            leader_since: Duration::ZERO,
            first_seen: Duration::from_secs(100),
            cluster: ClusterId::parse("0123456789abcdef").expect("16 digits"),
            kind_deleting: Some(false),
            account: ResolvedAccount::Found {
                view: AccountView::usable(),
                terms: Terms::Own,
            },
            memory: Memory::default(),
            object: Arc::new(object),
        },
        steady: WALL,
        target: TargetFact::Found(target),
        conflicting_owners: ConflictingOwners::default(),
        is_first: true,
    }
}
