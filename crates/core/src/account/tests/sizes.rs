//! The largest status of an account, whatever the provider shows and the objects do.

use super::{
    catalog::{large, next, set_catalogue},
    *,
};
use crate::{
    account::{
        decide::candidate::{CandidateKeyState, TrialResult},
        facts::UsedBy,
    },
    sizes::{largest, long, written},
};
use api::{
    ClusterProviderAccount, Kind, ProviderAccount,
    account_sizes::{
        LARGEST_CA_BUNDLE, LARGEST_CONDITIONS, LARGEST_ORPHANS, LARGEST_RELEASES, LARGEST_REST,
        LARGEST_SPEC, LARGEST_STATUS, SPEC_AND_CATALOG,
    },
    acknowledgement::{Acknowledged, AcknowledgementEffect, PendingAcknowledgement},
    bounds::stored_size,
    records::AccountRecords,
    release_limit::{CountedRelease, NamespaceReleases, ReleaseLimitStatus},
};
use hosting_types::quota::{LocationQuota, QuotaUsage};
use serde_json::{Value, json};

/// The same account with the bundle of another object.
fn with_bundle_ref(mut spec: Value) -> Value {
    let name = largest::text(largest::NAME);
    spec["caBundleRef"] = json!({"kind": "ConfigMap", "name": name, "key": name});
    spec.as_object_mut().expect("a spec").remove("caBundle");
    spec
}

/// An account with this spec and the largest use, at a provider with the longest texts that the client accepts.
fn crowded(spec: &Value) -> AccountFacts {
    let at = |seconds: i64| Time(Timestamp::from_second(1_790_000_000 + seconds).unwrap());
    let mut facts = facts();
    facts.spec = serde_json::from_value(spec.clone()).unwrap();
    facts.spec_size = stored_size(spec);
    facts.trusted = Some(largest::bundle());
    facts.timing = facts.spec.timing.in_force(Minimum::Kept);
    let lost = |number: usize| Server {
        name: long(),
        location: long(),
        instance_type: long(),
        os_slug: long(),
        tags: vec![known().order_tag, "fmo-cluster:0123456789abcdef".into()],
        created_at: Some(1_700_000_000),
        ..provider_server(number)
    };
    let lost: Vec<Arc<Server>> = (0..150).map(|number| Arc::new(lost(number))).collect();
    let mut catalogue = large(300, 300, 300, 50);
    let usage = |number: usize| QuotaUsage {
        instance_type_id: None,
        instance_type: format!("{number:x>64}"),
        quota_type: String::new(),
        contract_id: Some(largest::text(64)),
        quota: Some(i64::MAX),
        usage: Some(i64::MAX),
    };
    catalogue.quotas = vec![LocationQuota {
        location_id: None,
        location: largest::text(64),
        usages: (0..100).map(usage).collect(),
    }];
    let known: Vec<KnownServer> = (1..4)
        .map(|number| KnownServer {
            uuid: uuid(number),
            ..known()
        })
        .collect();
    let report = facts.report.as_mut().unwrap();
    report.orphan_scan = OrphanScanResult::Found(lost);
    report.known.clone_from(&known);
    set_catalogue(&mut facts, 900, catalogue);
    facts.used_by = (0..8)
        .map(|kind| UsedBy {
            kind: format!("AKindOfObjects{kind}"),
            count: usize::MAX,
        })
        .collect();
    // All that conditions can report at once.
    facts.report.as_mut().unwrap().error = Some((Reason::ProviderUnreachable, long()));
    facts.secret_namespace = largest::text(63);
    facts.spec.suspend = true;
    facts.meta.deletion_timestamp = Some(at(0));
    facts.users = Some(usize::MAX);
    let user = format!("{}/{}", largest::text(63), largest::text(largest::NAME));
    facts.named_users = vec![("AKindOfObjects0".into(), vec![user; 5])];
    facts.keys.candidate = Some(CandidateKeyState {
        tried: Some(TrialResult::Refused(Refusal {
            status: 403,
            code: Some(i64::MAX),
            message: long(),
            fields: vec![(long(), long())],
            retry_after: None,
            idempotent: true,
        })),
        ..CandidateKeyState::default()
    });
    let endpoint = Endpoint {
        base_url: format!("https://{}", largest::text(1016)),
        credentials_hash: largest::text(12),
    };
    facts.in_force = Some(endpoint.clone());
    let release = |number: usize| CountedRelease {
        uuid: uuid(number),
        started_at: at(0),
    };
    let acknowledged = |n: usize| Acknowledged {
        token: format!("01234567890{n}"),
        effect: AcknowledgementEffect::LiftReleaseLimit,
        acknowledged_at: at(0),
    };
    facts.status = AccountStatus {
        account_id: Some(largest::text(36)),
        verified: Some(endpoint),
        operator_lease: Some(format!("{}/{}", largest::text(63), largest::text(253))),
        records: AccountRecords {
            known_servers: known,
        },
        release_limit: Some(ReleaseLimitStatus {
            namespaces: vec![NamespaceReleases {
                namespace: largest::text(63),
                releases: (0..100).map(release).collect(),
                unlisted: None,
                blocked_since: Some(at(1)),
            }],
        }),
        pending_acknowledgements: vec![PendingAcknowledgement {
            token: "012345678901".into(),
            effect: AcknowledgementEffect::NewAccount,
            subject: largest::text(256),
            since: at(0),
        }],
        acknowledged: (0..5).map(acknowledged).collect(),
        last_handled_reconcile_at: Some(largest::text(128)),
        ..AccountStatus::default()
    };
    facts
}

/// The status of an account with this spec. No part is larger than the table of [`api::account_sizes`] allows.
fn judged<K: Kind<Status = AccountStatus>>(
    spec: &Value,
    entries: usize,
    facts: &AccountFacts,
) -> Value {
    let mut status = written::<K>(spec, &next(facts));
    let whole = status.clone();
    let mut spec = spec.clone();
    let take = |of: &mut Value, part: &str| {
        let taken = of.as_object_mut().unwrap().remove(part);
        taken.map_or(0, |part| stored_size(&part))
    };
    let bundle = take(&mut spec, "caBundle") + take(&mut status, "caBundle");
    let catalog = take(&mut status, "catalog");
    let (rest, of_spec) = (stored_size(&status), stored_size(&spec) - entries);
    let [conditions, orphans, releases] =
        ["conditions", "orphans", "releaseLimit"].map(|part| take(&mut status, part));
    let other = stored_size(&status);
    for (part, taken, most) in [
        ("spec", of_spec, LARGEST_SPEC),
        ("CA bundle", bundle, LARGEST_CA_BUNDLE),
        ("conditions", conditions, LARGEST_CONDITIONS),
        ("orphans", orphans, LARGEST_ORPHANS),
        ("releases", releases, LARGEST_RELEASES),
        ("other", other, LARGEST_REST),
        ("status", rest, LARGEST_STATUS),
    ] {
        assert!(taken <= most, "{part}: {taken} bytes");
    }
    assert!(of_spec + entries + bundle + catalog <= SPEC_AND_CATALOG);
    assert_eq!(whole["conditions"].as_array().map(Vec::len), Some(10));
    assert_eq!(whole["orphans"].as_array().map(Vec::len), Some(20));
    assert_eq!(whole["servers"]["orphans"], 150);
    assert!(whole["catalog"]["omitted"].as_i64() > Some(0));
    let known = &whole["records"]["knownServers"];
    assert_eq!(known.as_array().map(Vec::len), Some(3));
    whole
}

#[test]
fn the_largest_account_has_less_than_64_kib() {
    let url = format!("https://{}", largest::text(1016));
    let name = largest::text(253);
    let own = largest::account_with_bundle(&url, &name);
    for spec in [own.clone(), with_bundle_ref(own)] {
        let status = judged::<ProviderAccount>(&spec, 0, &crowded(&spec));
        for list in ["locations", "systems", "quotas"] {
            assert!(status["catalog"][list].is_array(), "{list}");
        }
    }
    let of_cluster = largest::cluster_account(&url, &name);
    for spec in [of_cluster.clone(), with_bundle_ref(of_cluster)] {
        let mut facts = crowded(&spec);
        facts.key.kind = AccountKind::ClusterProviderAccount;
        facts.key.namespace = None;
        let status = judged::<ClusterProviderAccount>(&spec, 8_192, &facts);
        let bundle = largest::bundle();
        let shown = spec["caBundleRef"].is_object().then_some(bundle.as_str());
        assert_eq!(status["caBundle"].as_str(), shown, "it is not cut");
    }
}

#[test]
fn large_spec_leaves_less_catalog_space() {
    let size = |spec_size: usize| {
        let mut facts = facts();
        facts.spec_size = spec_size;
        set_catalogue(&mut facts, 900, large(30, 30, 300, 0));
        stored_size(&next(&facts).catalog)
    };
    let (usual, large, largest) = (size(4 * 1024), size(20 * 1024), size(40 * 1024));
    assert!((20_000..=24 * 1024).contains(&usual), "{usual}");
    assert!((15_000..=17_408).contains(&large), "{large}");
    assert!(largest < 200, "{largest}");
}
