//! Does another URL or key lead to the same account?

use super::*;
use api::acknowledgement::AcknowledgementEffect;

/// An account that was verified with the key `old`, and uses the key `a` now.
pub(super) fn changed() -> AccountFacts {
    let mut facts = facts();
    facts.status.verified = Some(endpoint("old"));
    facts
}

/// The name hash of an order tag.
pub(super) fn name_hash(digit: &str) -> String {
    digit.repeat(28)
}

/// An open order that was sent under this account ID.
pub(super) fn ordered(account_id: &str) -> OpenOrder {
    OpenOrder {
        name_hash: name_hash("1"),
        seq: 7,
        account_id: account_id.into(),
    }
}

pub(super) fn recorded(number: usize, live: bool, account_id: &str) -> RecordedServer {
    RecordedServer {
        uuid: uuid(number),
        name_hash: name_hash("0"),
        live,
        account_id: Some(account_id.into()),
    }
}

pub(super) fn record_servers(facts: &mut AccountFacts, servers: Vec<RecordedServer>) {
    facts.on_record.as_mut().unwrap().servers = servers;
}

/// The complete list with the new credentials shows this server.
fn shows(facts: &mut AccountFacts, number: usize) {
    let report = facts.report.as_mut().unwrap();
    let list = report.complete_list.as_mut().map(Arc::make_mut).unwrap();
    list.servers = vec![Arc::new(provider_server(number))];
}

/// What stops objects, what stops orders, the account ID that is written, and the one in force.
fn verdict(
    facts: &AccountFacts,
) -> (
    Option<Reason>,
    Option<Reason>,
    Option<String>,
    Option<String>,
) {
    let decision = decide(facts);
    let reason = |why: Option<(Reason, String)>| why.map(|(reason, _)| reason);
    (
        reason(decision.block),
        reason(decision.no_orders),
        decision.account_id,
        decision.account_id_in_force,
    )
}

fn kept_account() -> (
    Option<Reason>,
    Option<Reason>,
    Option<String>,
    Option<String>,
) {
    (None, None, None, Some(ACCOUNT_ID.into()))
}

/// Nothing is ordered until the new account ID is recorded.
fn renewed() -> (
    Option<Reason>,
    Option<Reason>,
    Option<String>,
    Option<String>,
) {
    (
        None,
        Some(Reason::Pending),
        Some(NEXT_ACCOUNT_ID.into()),
        None,
    )
}

#[test]
fn young_account_accepts_rotation_at_once() {
    let mut facts = changed();
    facts.report.as_mut().unwrap().complete_list = None;
    assert_eq!(verdict(&facts), renewed());
    let decision = decide(&facts);
    assert_eq!(decision.verified, Some(endpoint("a")));
    let next = report::next_status(&facts, &decision, Timestamp::MIN);
    let news = report::news(&facts.status, &next, &decision);
    assert!(news.iter().any(|n| n.action == "Connect"), "{news:?}");
    // Once it is recorded, orders go on.
    facts.status = next;
    facts.report = Some(report_of());
    let (block, no_orders, written, in_force) = verdict(&facts);
    assert_eq!((block, no_orders, written), (None, None, None));
    assert_eq!(in_force.as_deref(), Some(NEXT_ACCOUNT_ID));
}

#[test]
fn empty_account_accepts_any_rotation() {
    let mut facts = changed();
    facts.status.records.known_servers = vec![KnownServer {
        live: false,
        ..known()
    }];
    assert_eq!(
        verdict(&facts),
        renewed(),
        "none of the released ones is shown"
    );
    assert_eq!(
        decide(&facts).known,
        [],
        "and they say nothing of the new lineage"
    );
    shows(&mut facts, 1);
    assert_eq!(verdict(&facts), kept_account());
    // The record of an object that still has its released server is newer than the account's.
    let mut facts = changed();
    facts.status.records.known_servers = vec![known()];
    record_servers(&mut facts, vec![recorded(1, false, ACCOUNT_ID)]);
    assert_eq!(verdict(&facts), renewed());
}

#[test]
fn new_key_must_show_recorded_servers() {
    let mut facts = changed();
    record_servers(&mut facts, vec![recorded(1, true, ACCOUNT_ID)]);
    assert_eq!(
        verdict(&facts).0,
        Some(Reason::AccountChanged),
        "before the account remembers any"
    );
    let mut unlisted = facts.clone();
    unlisted.report.as_mut().unwrap().complete_list = None;
    assert_eq!(
        verdict(&unlisted).0,
        Some(Reason::Pending),
        "not looked yet"
    );
    let mut unknown = facts.clone();
    unknown.on_record = None;
    assert_eq!(
        verdict(&unknown).0,
        Some(Reason::Pending),
        "the objects are not all known"
    );
    shows(&mut facts, 1);
    assert_eq!(verdict(&facts), kept_account());
    // A server of a previous account ID is not missed, and shows nothing.
    let mut facts = changed();
    record_servers(&mut facts, vec![recorded(1, true, "another")]);
    shows(&mut facts, 1);
    assert_eq!(verdict(&facts), renewed());
}

/// The list shows the server of the order with this number.
fn shows_order(facts: &mut AccountFacts, seq: u32) {
    shows(facts, 3);
    let report = facts.report.as_mut().unwrap();
    let list = report.complete_list.as_mut().map(Arc::make_mut).unwrap();
    let tag = format!("fmo-order:{}{:016}{seq:08x}", name_hash("1"), 0);
    Arc::make_mut(&mut list.servers[0]).tags = vec![tag];
}

#[test]
fn open_order_blocks_key_until_server_shows() {
    let mut facts = changed();
    facts.on_record.as_mut().unwrap().open_orders = vec![ordered(ACCOUNT_ID)];
    assert_eq!(verdict(&facts).0, Some(Reason::AccountChanged));
    shows_order(&mut facts, 7);
    assert_eq!(verdict(&facts), kept_account());
}

/// The only token that status shows.
pub(super) fn pending_token(facts: &AccountFacts, effect: AcknowledgementEffect) -> String {
    let pending = &facts.status.pending_acknowledgements;
    let [asked] = &pending[..] else {
        panic!("{pending:?}")
    };
    assert_eq!(asked.effect, effect);
    asked.token.clone()
}

#[test]
fn a_change_that_is_acknowledged_is_taken_once() {
    let mut facts = changed();
    facts.status.records.known_servers = vec![known()];
    let message = condition(&facts, Type::Ready).2;
    write(&mut facts);
    let token = pending_token(&facts, AcknowledgementEffect::NewAccount);
    assert!(
        message.contains(&format!("set flexmetal.dev/acknowledge to {token}")),
        "{message}"
    );
    acknowledge(&mut facts, "0123456789ab");
    assert_eq!(
        verdict(&facts).0,
        Some(Reason::AccountChanged),
        "another token"
    );
    acknowledge(&mut facts, &token);
    assert_eq!(verdict(&facts), renewed());
    // It is valid for one key, and for the servers that it gives up.
    let mut third = facts.clone();
    third.in_force = Some(endpoint("c"));
    assert_eq!(verdict(&third).0, Some(Reason::AccountChanged));
    let mut more = facts.clone();
    record_servers(&mut more, vec![recorded(2, true, ACCOUNT_ID)]);
    assert_eq!(verdict(&more).0, Some(Reason::AccountChanged));
    // It is not used up before it is recorded.
    facts.report.as_mut().unwrap().key = KeyState::Untried;
    assert_eq!(decide(&facts).acknowledged, []);
    assert_eq!(
        decide(&facts).pending,
        facts.status.pending_acknowledgements
    );
    facts.report.as_mut().unwrap().key = KeyState::Accepted;
    write(&mut facts);
    assert_eq!(facts.status.acknowledged[0].token, token);
    assert_eq!(facts.status.pending_acknowledgements, []);
}

#[test]
fn account_id_is_recovered_from_objects() {
    let with = |change: &dyn Fn(&mut RecordedResources)| {
        let mut facts = facts();
        facts.status = AccountStatus::default();
        change(facts.on_record.as_mut().unwrap());
        facts
    };
    let recovered = (
        None,
        Some(Reason::Pending),
        Some(ACCOUNT_ID.to_owned()),
        None,
    );
    assert_eq!(verdict(&with(&|_| ())), renewed(), "a new account");
    let mut made = with(&|all| all.servers = vec![recorded(1, true, ACCOUNT_ID)]);
    assert_eq!(verdict(&made).0, Some(Reason::AccountChanged));
    shows(&mut made, 1);
    assert_eq!(verdict(&made), recovered);
    // The server of an open order.
    let mut open = with(&|all| all.open_orders = vec![ordered(ACCOUNT_ID)]);
    assert_eq!(verdict(&open).0, Some(Reason::AccountChanged));
    for (seq, is_it) in [(8, false), (7, true)] {
        shows_order(&mut open, seq);
        assert_eq!(verdict(&open) == recovered, is_it, "{seq}");
    }
    // Two account IDs that qualify are one too many.
    let two = |all: &mut RecordedResources| {
        all.servers = vec![recorded(1, true, ACCOUNT_ID), recorded(1, true, "another")];
    };
    let mut two = with(&two);
    shows(&mut two, 1);
    assert_eq!(verdict(&two).0, Some(Reason::AccountChanged));
}

#[test]
fn missing_secret_blocks_unverified_key() {
    // The key was replaced, and then the Secret vanished before the new key had shown anything.
    let mut facts = changed();
    facts.status.records.known_servers = vec![known()];
    facts.secret = SecretFact::Missing;
    assert_eq!(verdict(&facts).0, Some(Reason::ReferenceNotFound));
    facts.in_force = Some(endpoint("old"));
    assert_eq!(
        verdict(&facts).0,
        None,
        "the last good key goes on releasing"
    );
    assert_eq!(
        verdict(&facts).1,
        Some(Reason::ReferenceNotFound),
        "and orders nothing"
    );
}

#[test]
fn replaced_key_blocks_until_tried() {
    let mut facts = changed();
    facts.status.records.known_servers = vec![known()];
    facts.report = None;
    assert_eq!(verdict(&facts).0, Some(Reason::Pending));
    facts.report = Some(report_of());
    facts.report.as_mut().unwrap().key = KeyState::Untried;
    assert_eq!(verdict(&facts).0, Some(Reason::AccountChanged));
}

#[test]
fn one_listing_that_shows_nothing_may_be_false() {
    let mut facts = changed();
    facts.status.records.known_servers = vec![known()];
    facts.missed_since = None;
    assert_eq!(verdict(&facts).0, Some(Reason::Pending));
    // The only list so far began at 90 s; they are a minute apart.
    facts.missed_since = Some(Duration::from_secs(90));
    assert_eq!(verdict(&facts).0, Some(Reason::Pending));
    assert_eq!(
        decide(&facts).wants_complete_list,
        Some(Duration::from_secs(150))
    );
    facts.missed_since = Some(Duration::from_secs(30));
    assert_eq!(verdict(&facts).0, Some(Reason::AccountChanged));
    assert_eq!(decide(&self::facts()).wants_complete_list, None);
}

#[test]
fn recorded_server_needs_its_owner_tag() {
    let mut facts = changed();
    record_servers(
        &mut facts,
        vec![RecordedServer {
            name_hash: name_hash("1"),
            ..recorded(1, true, ACCOUNT_ID)
        }],
    );
    shows(&mut facts, 1);
    assert_eq!(verdict(&facts).0, Some(Reason::AccountChanged));
}

#[test]
fn acknowledged_lost_servers_are_forgotten() {
    let mut facts = facts();
    facts.status.records.known_servers = vec![known()];
    facts.report.as_mut().unwrap().known = vec![known()];
    write(&mut facts);
    let token = pending_token(&facts, AcknowledgementEffect::SameAccount);
    acknowledge(&mut facts, &token);
    // They are shown again.
    let mut shown = facts.clone();
    shows(&mut shown, 1);
    write(&mut shown);
    assert_eq!(shown.status.acknowledged, []);
    assert_eq!(shown.status.pending_acknowledgements, []);
    // Nothing was listed since the start.
    let mut unseen = facts.clone();
    unseen.report.as_mut().unwrap().complete_list = None;
    assert_eq!(
        decide(&unseen).pending,
        facts.status.pending_acknowledgements
    );
    // The account knows the servers that are shown now, whatever it knew before.
    facts.report.as_mut().unwrap().known = vec![];
    write(&mut facts);
    assert_eq!(facts.status.records.known_servers, []);
    assert_eq!(facts.status.account_id.as_deref(), Some(ACCOUNT_ID));
    assert_eq!(facts.status.acknowledged[0].token, token);
    assert_eq!(facts.status.pending_acknowledgements, []);
}

#[test]
fn just_ordered_known_server_is_not_lost() {
    let mut facts = facts();
    facts.status.records.known_servers = vec![known()];
    let report = facts.report.as_mut().unwrap();
    report.known = vec![known()];
    // Its order was answered after the complete list began.
    report.are_known_lost = false;
    assert_eq!(decide(&facts).pending, []);
    facts.report.as_mut().unwrap().are_known_lost = true;
    let pending = decide(&facts).pending;
    assert_eq!(pending[0].effect, AcknowledgementEffect::SameAccount);
}
