//! The account object, as its own decision reads it.

use super::{super::world::*, *};
use api::{
    Interval,
    account::{AccountSpec, AccountStatus, Endpoint, KnownServer},
    names::ACKNOWLEDGE,
    records::AccountRecords,
    references::AccountKind,
    release_limit::{CountedRelease, ReleaseLimit, ReleaseLimitStatus},
    timing::TimingInForce,
};
use flexmetal_core::{
    account::{
        decide::{candidate::Keys, lineage as identity},
        facts::{AccountReport, BundleFact, Calls, Counts, Facts, SecretFact, acknowledgements},
        key::AccountKey,
        key_state::KeyState,
        on_record::OnRecord,
        orphans::Verdict,
        view::Proof,
    },
    patience::Patience,
    request::Asked,
    server::on_record::on_record,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use std::{collections::BTreeMap, sync::Arc};

/// UID of the account object.
pub const ACCOUNT_UID: &str = "uid-account";

/// All that a pass over the account object sees. Also the key under which its decision is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    pub status: AccountA,
    pub connection: Connection,
    pub refused: bool,
    pub proof: Option<ProofA>,
    pub seen: [Option<Machine>; MOST_MACHINES],
    pub started: Tick,
    pub used_before: bool,
    /// Start of the first listing over this connection that showed no machine on record.
    pub missed: Option<Tick>,
    /// What the objects tell of their orders.
    pub objects: [Option<(Who, Option<StatusA>)>; SLOTS],
}

/// A release limit that lets one release begin.
pub const RELEASE_LIMIT: ReleaseLimit = ReleaseLimit {
    max_releases: 1,
    window: Interval(Duration::from_secs(3600)),
};

/// What the account's status says of it.
pub fn release_limit_status(limit: &ReleaseLimitA) -> ReleaseLimitStatus {
    let at = || Time(jiff::Timestamp::from_second(BASE).unwrap());
    let counted = (0u8..8).filter(|n| limit.counted & (1 << n) != 0);
    ReleaseLimitStatus {
        releases: counted
            .map(|n| CountedRelease {
                uuid: uuid(n),
                started_at: at(),
            })
            .collect(),
        blocked_since: limit.blocked.then(at),
    }
}

/// URL and key of a connection.
fn endpoint(connection: Connection) -> Endpoint {
    Endpoint {
        base_url: format!("https://{}.example.com", connection.account()),
        credentials_hash: format!("{connection:?}"),
    }
}

/// The connection with this URL and key.
pub fn connection_of(endpoint: &Endpoint) -> Connection {
    let all = Connection::ALL.into_iter();
    all.clone()
        .find(|c| format!("{c:?}") == endpoint.credentials_hash)
        .unwrap()
}

/// The words for connections.
static WORDS: LazyLock<[String; 3]> =
    LazyLock::new(|| Connection::ALL.map(|c| endpoint(c).connection(ACCOUNT_UID)));

/// The word for a connection.
pub fn word(connection: Connection) -> String {
    WORDS[connection as usize].clone()
}

/// The connection of a word.
pub fn connection_by(word: &str) -> Connection {
    let number = WORDS.iter().position(|w| w == word).unwrap();
    Connection::ALL[number]
}

/// The word for a lineage.
pub fn lineage(number: u8) -> String {
    format!("lineage-{number}")
}

/// The lineage of a word.
pub fn lineage_of(word: &str) -> u8 {
    word.strip_prefix("lineage-").unwrap().parse().unwrap()
}

/// The control machines that are remembered.
pub fn known(bits: u8) -> Vec<KnownServer> {
    (0..2u8)
        .filter(|account| bits & (1 << account) != 0)
        .map(|account| KnownServer {
            uuid: control(account),
            order_tag: control_tag(),
            live: true,
        })
        .collect()
}

/// The same as a bit set.
pub fn known_of(machines: &[KnownServer]) -> u8 {
    let is_known = |account: &u8| machines.iter().any(|k| k.uuid == control(*account));
    (0..2u8).filter(is_known).map(|account| 1 << account).sum()
}

static SPEC: LazyLock<AccountSpec> = LazyLock::new(|| {
    let least = r#"{"baseURL": "https://0.example.com", "apiKeySecretRef": {"name": "key"}}"#;
    serde_json::from_str(least).unwrap()
});

/// What the status has of the release limit.
fn counted(account: &AccountA) -> Option<ReleaseLimitStatus> {
    let counted = account.release_limit.filter(|b| b.counted != 0);
    counted.map(|limit| release_limit_status(&limit))
}

/// What a user gave.
fn annotations(account: &AccountA) -> BTreeMap<String, String> {
    [(ACKNOWLEDGE.to_owned(), TEXTS.get(account.given))].into()
}

/// The facts of the account object.
pub fn account(a: &Account) -> Facts {
    let mut on_record_of_all = OnRecord::default();
    for (who, status) in a.objects.into_iter().flatten() {
        let bare = Obj {
            status,
            ..super::super::start::object(who, 0)
        };
        on_record(&cluster(), &object(&bare), &mut on_record_of_all);
    }
    let lineage_now = a.status.lineage.map(lineage);
    let proof = a.proof.map(|p| {
        let began = ticks(p.began - a.started);
        let mut servers: Vec<_> = (0u8..)
            .zip(&a.seen)
            .filter(|(n, _)| p.shown & (1 << n) != 0)
            .filter_map(|(n, m)| m.as_ref().map(|m| Arc::new(server(n, m))))
            .collect();
        if p.control {
            servers.push(Arc::new(control_server(a.connection.account())));
        }
        Arc::new(Proof {
            began,
            ended: began,
            servers,
        })
    });
    let shown = a.proof.is_some_and(|p| p.control);
    let shown = u8::from(shown) << a.connection.account();
    let endpoint_now = endpoint(a.connection);
    let meta = ObjectMeta {
        uid: Some(ACCOUNT_UID.into()),
        annotations: Some(annotations(&a.status)),
        ..ObjectMeta::default()
    };
    let lists = LISTS.get(a.status.asked);
    let status = AccountStatus {
        account_id: lineage_now,
        verified: a.status.endpoint.map(endpoint),
        records: AccountRecords {
            known_servers: known(a.status.known),
        },
        release_limit: counted(&a.status),
        pending_acknowledgements: lists.0.clone(),
        acknowledged: lists.1.clone(),
        ..AccountStatus::default()
    };
    // A user acknowledged that none of those is there any more: known is what it shows now.
    let by = proof.as_deref();
    let unshown = identity::unshown_by(&status, ACCOUNT_UID, Some(&endpoint_now), by);
    let given = acknowledgements(&meta, &status, BASE);
    let is_forgotten = unshown.is_some_and(|unshown| given.is_given(&unshown));
    let mut facts = Facts {
        now: Duration::ZERO,
        wall: BASE,
        key: AccountKey::named(AccountKind::ProviderAccount, Some("shop"), "default"),
        meta,
        spec: AccountSpec {
            release_limit: a.status.release_limit.map(|_| RELEASE_LIMIT),
            ..SPEC.clone()
        },
        spec_size: 0,
        timing: timing(),
        missed_since: None,
        status,
        secret_namespace: "shop".into(),
        keys: Keys::default(),
        secret: SecretFact::Found {
            key: Ok(endpoint_now.credentials_hash.clone()),
            deleting: false,
            has_finalizer: true,
        },
        endpoint: Ok(()),
        bundle: BundleFact::Known,
        trusted: None,
        users: Some(1),
        used_by: Vec::new(),
        named_users: Vec::new(),
        figures_are_due: false,
        offered: None,
        secret_is_shared: false,
        connected: true,
        in_force: Some(endpoint_now),
        on_record: Some(on_record_of_all),
        used_before: a.used_before,
        fresh_word: lineage(a.status.lineages),
        report: (a.refused || proof.is_some()).then(|| AccountReport {
            key: match a.refused {
                true => KeyState::Rejected(refusal(401)),
                false => KeyState::Accepted,
            },
            error: None,
            proof,
            verdict: Verdict::NotChecked,
            counts: Counts::default(),
            catalogue: None,
            calls: Calls::default(),
            known: known(match is_forgotten {
                true => shown,
                false => a.status.known | shown,
            }),
        }),
        failed: None,
        patience: Patience::default(),
        asked: Asked::default(),
    };
    let missed = a.missed.map(|tick| ticks(tick - a.started));
    facts.missed_since = identity::missed(&facts).map(|began| missed.unwrap_or(began));
    facts
}

/// The times of [`times`], as the account object has them in force.
fn timing() -> TimingInForce {
    let times = times();
    TimingInForce {
        absence_grace_period: Interval(times.absence_grace_period),
        absence_check_interval: Interval(times.absence_check_interval),
        active_poll_interval: Interval(times.active_poll_interval),
        idle_poll_interval: Interval(times.idle_poll_interval),
        orphan_scan_interval: Interval(times.orphan_scan_interval),
        order_timeout: Interval(times.order_timeout),
    }
}

/// The tick of a moment of a process.
pub fn tick_of(moment: Duration, started: Tick) -> Tick {
    started + Tick::try_from(moment.as_secs() / TICK.unsigned_abs()).unwrap()
}
