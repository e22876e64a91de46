//! Converts the facts of a server object to the protocol's types, and the protocol's records back.

use super::{
    decide::release,
    facts::{ServerFacts, is_same_uuid},
};
use crate::{
    account::{
        ownership_tags,
        view::{AccountView, SeenServer},
    },
    owner::{self, Owner},
    protocol::{
        self, AcknowledgedActions, DeletionAction, EndedServerAction, KnownServerCheck,
        ListSummary, ObjectUid, ProtocolObject, ProtocolOrder, ProtocolOutcome, ServerPhase,
    },
};
use api::{
    account::KnownServer, names::CLUSTER_TAG, order::OrderRecord, records::ReleaseRecord,
    references::AccountKind, server::OrderOutcome,
};
use hosting_types::{Server, ServerStatus};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// Servers in the protocol's types.
pub struct ProtocolServers {
    servers: Vec<protocol::ProtocolServer>,
    recorded_elsewhere: Vec<protocol::ServerId>,
    owned_elsewhere: Vec<protocol::ServerId>,
}

/// Converts a UUID to the protocol's server ID.
pub fn server_id(uuid: &str) -> protocol::ServerId {
    let digits = uuid.chars().filter_map(|c| c.to_digit(16));
    protocol::ServerId(digits.fold(0, |id, digit| (id << 4) | u128::from(digit)))
}

/// The UUID of a server, as the provider, the record or the spec spells it.
pub fn uuid_of(facts: &ServerFacts, id: protocol::ServerId) -> String {
    let shown = list_seen_servers(facts).map(|s| s.server.id.as_str());
    let recorded = facts.order().and_then(|order| order.server.as_deref());
    let named = facts.object.spec.external_id.as_deref();
    let mut texts = shown.chain(recorded).chain(named);
    let text = texts.find(|text| server_id(text) == id);
    text.map_or_else(|| uuid(id), str::to_owned)
}

/// The UUID of a server.
pub fn uuid(id: protocol::ServerId) -> String {
    let digits = format!("{:032x}", id.0);
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}

fn hash(text: &str) -> u128 {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(16);
    bytes.fold(0, |hash, byte| (hash << 8) | u128::from(*byte))
}

/// Converts the UID of an object to the protocol's type.
pub fn object_uid(uid: &str) -> ObjectUid {
    ObjectUid(hash(uid))
}

/// Converts an account ID to the protocol's type.
pub fn account_id(id: &str) -> protocol::AccountId {
    let hash = hash(id).to_be_bytes();
    protocol::AccountId(
        hash.iter()
            .take(8)
            .fold(0, |id, byte| (id << 8) | u64::from(*byte)),
    )
}

/// A nonce as a number; 0 if it is empty.
fn nonce(text: &str) -> u64 {
    match text.is_empty() {
        true => 0,
        false => account_id(text).0,
    }
}

/// Converts an order record to the protocol's type.
pub fn to_protocol_order(record: &OrderRecord) -> ProtocolOrder {
    let server = record.server.as_deref().map(server_id);
    let outcome = match (record.outcome, server) {
        (Some(OrderOutcome::Created), Some(server)) => ProtocolOutcome::Created(server),
        (Some(OrderOutcome::Adopting), Some(server)) => ProtocolOutcome::Adopting(server),
        (Some(OrderOutcome::Refused), _) => ProtocolOutcome::Refused,
        (Some(OrderOutcome::NotSent), _) => ProtocolOutcome::NotSent,
        (Some(OrderOutcome::Absent), _) => ProtocolOutcome::Absent,
        (None | Some(OrderOutcome::Created | OrderOutcome::Adopting), _) => ProtocolOutcome::Open,
    };
    ProtocolOrder {
        uid: object_uid(&record.uid),
        seq: record.seq,
        nonce: nonce(&record.nonce),
        send_by: record.send_by,
        account: account_id(&record.account_id),
        outcome,
        answer_lost: record.answer_lost,
        lost: record.lost,
        cut: record.cut,
    }
}

/// Converts a protocol order to the order record to write.
pub fn to_order_record(
    facts: &ServerFacts,
    view: &AccountView,
    next: &ProtocolOrder,
) -> OrderRecord {
    let now = facts.now.wall;
    let same = facts.order().filter(|known| {
        let known = to_protocol_order(known);
        (known.seq, known.nonce) == (next.seq, next.nonce)
    });
    // The remembered answer has more details than the protocol order.
    let answered = facts.memory.answer.as_deref().filter(|answer| {
        let answer = to_protocol_order(answer);
        (answer.seq, answer.nonce, answer.outcome) == (next.seq, next.nonce, next.outcome)
    });
    let mut record = answered.or(same).cloned().unwrap_or_else(|| OrderRecord {
        uid: facts.uid().to_owned(),
        seq: next.seq,
        nonce: String::new(),
        send_by: next.send_by,
        hostname: String::new(),
        account_id: view.account_id.clone().unwrap_or_default(),
        outcome: None,
        server: None,
        outcome_at: None,
        answer_lost: false,
        lost: 0,
        cut: 0,
        message: None,
        failures: 0,
        acknowledgement: None,
        request_hash: None,
        location: None,
        instance_type: None,
        sent: Default::default(),
        key_uids: Vec::new(),
        // The texts of an unknown order may be secret.
        secret_texts: true,
    });
    record.seq = next.seq;
    (record.answer_lost, record.lost, record.cut) = (next.answer_lost, next.lost, next.cut);
    let (outcome, server) = match next.outcome {
        ProtocolOutcome::Open => (None, None),
        ProtocolOutcome::Created(server) => {
            (Some(OrderOutcome::Created), Some(uuid_of(facts, server)))
        }
        ProtocolOutcome::Refused => (Some(OrderOutcome::Refused), None),
        ProtocolOutcome::NotSent => (Some(OrderOutcome::NotSent), None),
        ProtocolOutcome::Absent => (Some(OrderOutcome::Absent), None),
        ProtocolOutcome::Adopting(server) => {
            (Some(OrderOutcome::Adopting), Some(uuid_of(facts, server)))
        }
    };
    if record.outcome != outcome {
        record.outcome_at = outcome.map(|_| now);
        record.message = None;
    }
    if matches!(outcome, Some(OrderOutcome::Created | OrderOutcome::Absent)) {
        record.failures = 0;
    }
    (record.outcome, record.server) = (outcome, server);
    record
}

/// Collects the servers that the protocol reads.
pub fn collect_servers(facts: &ServerFacts, owner: &Owner) -> ProtocolServers {
    let all = list_seen_servers(facts);
    let mut servers: Vec<protocol::ProtocolServer> = Vec::new();
    for seen in all {
        let server = to_seen_server(facts, owner, seen);
        match servers.iter_mut().find(|known| known.id == server.id) {
            Some(known) if known.seen < server.seen => *known = server,
            Some(_) => {}
            None => servers.push(server),
        }
    }
    let ids =
        |ids: &[hosting_types::ServerId]| ids.iter().map(|id| server_id(id.as_str())).collect();
    ProtocolServers {
        servers,
        recorded_elsewhere: ids(&facts.recorded_elsewhere),
        owned_elsewhere: ids(&facts.owned_elsewhere),
    }
}

/// All seen servers that concern the object.
pub fn list_seen_servers(facts: &ServerFacts) -> impl Iterator<Item = &SeenServer> {
    let named = facts
        .external
        .iter()
        .filter(|named| !facts.has_recorded(&named.uuid));
    let named = named.filter_map(|named| named.shown.as_ref());
    let own = facts.own.iter().chain(&facts.recorded);
    own.chain(&facts.previous)
        .chain(&facts.suspects)
        .chain(named)
}

/// Converts a seen server, with the facts of this object.
fn to_seen_server(
    facts: &ServerFacts,
    owner: &Owner,
    seen: &SeenServer,
) -> protocol::ProtocolServer {
    protocol::ProtocolServer {
        seen: seen.seen,
        is_untagged_namesake: facts.suspects.iter().any(|s| s.server.id == seen.server.id),
        ..to_protocol_server(facts, owner, &seen.server)
    }
}

/// Converts a server that was read now.
pub fn to_protocol_server(
    facts: &ServerFacts,
    owner: &Owner,
    server: &Server,
) -> protocol::ProtocolServer {
    let cluster = facts.cluster.tag();
    let tags = || {
        server
            .tags
            .iter()
            .filter_map(|tag| owner::parse_order_tag(tag))
    };
    let own = tags().filter(|(it, _)| *it == owner.as_str());
    let own = own.map(|(_, seq)| seq);
    let mut others = tags().map(|(it, _)| it).filter(|it| *it != owner.as_str());
    let namespace = owner::namespace_of(owner.as_str());
    let is_foreign = |tag: &String| tag.starts_with(CLUSTER_TAG) && *tag != cluster;
    protocol::ProtocolServer {
        id: server_id(server.id.as_str()),
        state: state(&server.status),
        created: server.created_at.unwrap_or(i64::MAX),
        has_cluster_tag: server.has_tag(&cluster),
        has_other_cluster: server.tags.iter().any(is_foreign),
        own_seq: own.max(),
        is_of_previous_namespace: tags()
            .any(|(it, _)| it.starts_with(owner.name_hash()) && it != owner.as_str()),
        has_other_owner: others.next().is_some(),
        has_other_namespace: tags().any(|(it, _)| owner::namespace_of(it) != namespace),
        is_retained: ownership_tags::is_retained(server),
        is_untagged_namesake: false,
        seen: facts.now.mono,
    }
}

fn state(status: &ServerStatus) -> ServerPhase {
    match status {
        ServerStatus::Failed => ServerPhase::Failed,
        ServerStatus::Releasing => ServerPhase::Releasing,
        ServerStatus::Released => ServerPhase::Released,
        _ => ServerPhase::Live,
    }
}

/// Whether this known server was ordered within the send window before the list began. The list may lack such a server.
fn may_be_too_new(
    facts: &ServerFacts,
    view: &AccountView,
    known: &KnownServer,
    began: Duration,
) -> bool {
    let ago = facts.now.elapsed_since(began) + view.times.send_window;
    let ago = i64::try_from(ago.as_secs()).unwrap_or(i64::MAX);
    let since = facts.now.wall.saturating_sub(ago);
    let ordered = ownership_tags::seq(&known.order_tag);
    ordered.is_some_and(|ordered| (since..=facts.now.wall).contains(&ordered))
}

/// Summarises a list, with whether it shows a known server that it must contain.
fn to_protocol_list<'a>(
    facts: &ServerFacts,
    view: &AccountView,
    began: Duration,
    servers: &(impl Iterator<Item = &'a Server> + Clone),
) -> ListSummary {
    let recorded = facts.order().and_then(|order| order.server.as_deref());
    let is_own = |known: &&KnownServer| recorded.is_some_and(|own| is_same_uuid(own, &known.uuid));
    let others = || view.known.iter().filter(|known| !is_own(known));
    let is_shown = |known: &KnownServer| servers.clone().any(|s| s.id == *known.uuid);
    let must_show = |known: &&KnownServer| known.live && !may_be_too_new(facts, view, known, began);
    let known = match (others().any(is_shown), others().find(must_show)) {
        (true, _) => KnownServerCheck::Shown,
        (false, Some(_)) => KnownServerCheck::NotShown,
        (false, None) => KnownServerCheck::NoneExists,
    };
    ListSummary { began, known }
}

/// The protocol's times for this account.
pub fn times(view: &AccountView) -> protocol::ProtocolTimes {
    let times = &view.times;
    protocol::ProtocolTimes {
        grace: times.absence_grace_period,
        check: times.absence_check_interval,
        idle: times.idle_poll_interval,
        restart: times.send_window * 2,
        flight_time: times.send_window * 2,
    }
}

/// The acknowledged actions that match the present situation.
fn to_acknowledged(facts: &ServerFacts) -> AcknowledgedActions {
    let given = facts.acknowledgements();
    let adopt = super::decide::explain::adopt_situation(facts);
    let adopt = adopt.filter(|(_, situation)| given.is_given(situation));
    AcknowledgedActions {
        order_another: super::decide::explain::order_another_situation(facts)
            .is_some_and(|asked| given.is_given(&asked)),
        adopt: adopt.map(|(uuid, _)| server_id(&uuid)),
        assume_absent: given.is_given(&super::decide::explain::assume_absent_situation(facts)),
    }
}

/// Converts the record of a release.
pub fn to_protocol_release(release: &ReleaseRecord) -> protocol::Release {
    protocol::Release {
        uid: object_uid(&release.uid),
        server: server_id(&release.server),
        send_by: release.send_by,
        deleting: release.deleting,
    }
}

/// Converts the object; the decisions about its deletion and failed server are not included.
pub fn to_protocol_object(facts: &ServerFacts) -> ProtocolObject {
    ProtocolObject {
        uid: object_uid(facts.uid()),
        finalizer: facts.has_finalizer(),
        deleting: facts.deleting(),
        order: facts.order().map(to_protocol_order),
        release: facts.release_begun().map(to_protocol_release),
        external: facts.object.spec.external_id.as_deref().map(server_id),
        end: DeletionAction::Wait,
        after: EndedServerAction::Wait,
        acknowledged: AcknowledgedActions::default(),
    }
}

/// Whether the newest list of the whole account shows the recorded server. Checked only if reads miss it.
fn is_listed(facts: &ServerFacts, account: &AccountView) -> bool {
    let missing = facts.memory.protocol.missing().is_some();
    let listed = account.servers.as_ref().filter(|_| missing);
    let recorded = facts.order().and_then(|order| order.server.as_deref());
    let is_it = |server: &Server| recorded.is_some_and(|it| is_same_uuid(it, server.id.as_str()));
    listed.is_some_and(|(_, servers)| servers.iter().any(is_it))
}

/// The protocol's input; none while the account has no ID or the namespace was not read.
pub fn to_protocol_view<'a>(
    facts: &'a ServerFacts,
    account: &AccountView,
    shown: &'a ProtocolServers,
) -> Option<protocol::ProtocolView<'a>> {
    let complete_list = account.complete_list.as_ref();
    let of_cluster = complete_list.map(|list| {
        to_protocol_list(
            facts,
            account,
            list.began,
            &list.servers.iter().map(|s| &**s),
        )
    });
    let whole = account.servers.as_ref();
    let whole =
        whole.map(|(began, servers)| to_protocol_list(facts, account, *began, &servers.iter()));
    let newest = match (of_cluster, whole) {
        (Some(one), Some(other)) if other.began > one.began => Some(other),
        (one, other) => one.or(other),
    };
    let deletion = facts.deleting().then(|| release::decide_end(facts));
    Some(protocol::ProtocolView {
        now: facts.now.mono,
        unix: facts.now.wall,
        leader_since: facts.leader_since,
        times: times(account),
        object: ProtocolObject {
            end: deletion
                .and_then(Result::ok)
                .unwrap_or(DeletionAction::Wait),
            after: match super::decide::replace::is_due(facts) {
                true => EndedServerAction::Replace,
                false => EndedServerAction::Wait,
            },
            acknowledged: to_acknowledged(facts),
            // In read-only mode none is added, and what would follow it is decided.
            finalizer: facts.has_finalizer() || facts.read_only && !facts.deleting(),
            ..to_protocol_object(facts)
        },
        memory: &facts.memory.protocol,
        servers: &shown.servers,
        recorded_elsewhere: &shown.recorded_elsewhere,
        owned_elsewhere: &shown.owned_elsewhere,
        cluster_list: newest,
        account_list: whole,
        is_listed: is_listed(facts, account),
        account: account_id(account.account_id.as_deref()?),
        is_shared: is_shared(facts),
    })
}

/// Whether the account serves several namespaces.
pub fn is_shared(facts: &ServerFacts) -> bool {
    super::facts::account_of(&facts.object).kind != AccountKind::ProviderAccount
}
