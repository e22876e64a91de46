//! Orphan scans over broken lists: a record that is missing, repeated or shifted makes no claimed server an orphan, and
//! an incomplete list reports none.

use super::{
    provider::{name_hash, order_tag, server_json, uuid},
    rig::{Rig, key},
};
use crate::{account::Account, runtime::clock};
use api::account::KnownServer;
use flexmetal_core::account::orphan_scan::OrphanScanResult;
use hosting_types::{ServerId, ServerStatus};
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// The servers that objects claim; higher numbers are orphans.
const CLAIMED: usize = 120;
const OLD: usize = 121;
const NEW: usize = 122;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Two servers before this page disappeared after the previous page.
    Shifted,
    /// Two servers appeared there.
    Pushed,
    /// It shows one record twice.
    Repeated,
    /// It leaves out one record.
    Missing,
    /// It starts at the first record, even if another one was asked for.
    HeaderIgnored,
    /// It has all records that follow, even if fewer were asked for.
    TooLong,
    /// It fails.
    Failed,
    /// It is empty.
    Empty,
}

impl Flaw {
    const ALL: [Self; 8] = [
        Self::Shifted,
        Self::Pushed,
        Self::Repeated,
        Self::Missing,
        Self::HeaderIgnored,
        Self::TooLong,
        Self::Failed,
        Self::Empty,
    ];

    /// The page of the answer; None: an error.
    fn page(self, all: &[Value], start: usize, most: usize) -> Option<Vec<Value>> {
        let from = |start: usize| all.iter().skip(start).take(most).cloned().collect();
        let mut page: Vec<Value> = from(start);
        Some(match self {
            Self::Shifted => from(start + 2),
            Self::Pushed => from(start.saturating_sub(2)),
            Self::HeaderIgnored => from(0),
            Self::TooLong => all.iter().skip(start).cloned().collect(),
            Self::Empty => Vec::new(),
            Self::Failed => return None,
            Self::Repeated => {
                let first = page.first().cloned();
                page.splice(0..0, first);
                page.truncate(most);
                page
            }
            Self::Missing => {
                if page.len() > 10 {
                    page.remove(10);
                }
                page
            }
        })
    }
}

/// An account with all these servers but the new orphan, after the first scan.
async fn scanned() -> (Rig, Account) {
    let rig = Rig::new().await;
    let known = KnownServer {
        uuid: uuid(1),
        order_tag: order_tag(1),
        live: true,
    };
    rig.install("default", "key-one", |settings| {
        settings.known = vec![known]
    });
    let account = rig.resolve("default");
    rig.provider.world().servers = (1..=OLD).map(|n| server_json(n, "delivered")).collect();
    *rig.objects.name_hashes.lock().unwrap() = Some((1..=CLAIMED).map(name_hash).collect());
    rig.ready(&account).await;
    assert_eq!(found(&rig), [uuid(OLD)]);
    (rig, account)
}

fn found(rig: &Rig) -> Vec<String> {
    match rig
        .accounts
        .report(&key("default"), &[])
        .unwrap()
        .orphan_scan
    {
        OrphanScanResult::Found(orphans) => {
            orphans.iter().map(|s| s.id.as_str().to_owned()).collect()
        }
        OrphanScanResult::NotChecked => panic!("not checked"),
    }
}

/// Makes the pages of lists wrong from now on.
fn spoil(rig: &Rig, mut flaw: impl FnMut(usize) -> Option<Flaw> + Send + 'static) {
    rig.provider.world().page = Some(Box::new(move |all, start, most| match flaw(start) {
        Some(flaw) => flaw.page(all, start, most),
        None => Some(all.iter().skip(start).take(most).cloned().collect()),
    }));
}

#[tokio::test(start_paused = true)]
async fn broken_list_pages_make_no_false_orphans() {
    for flaw in Flaw::ALL {
        // On the second page of every list; an empty account shows that on the first.
        let page = if flaw == Flaw::Empty { 0 } else { 1 };
        let (rig, account) = scanned().await;
        rig.provider
            .world()
            .servers
            .push(server_json(NEW, "delivered"));
        spoil(&rig, move |start| (start >= page).then_some(flaw));
        rig.provider.calls();
        for _ in 0..6 {
            account.request_complete_list("x", clock::now().mono);
            sleep(Duration::from_secs(60)).await;
            assert_eq!(found(&rig), [uuid(OLD)], "{flaw:?}");
        }
        let lists = rig.provider.calls();
        assert!(lists.len() >= 6, "{flaw:?}: it was looked: {}", lists.len());
        rig.provider.world().page = None;
        rig.until("a scan", || found(&rig) == [uuid(OLD), uuid(NEW)])
            .await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Random flaws on random pages, while a real orphan appears.
    #[test]
    fn random_page_flaws_make_no_false_orphans(
        flaws in proptest::collection::vec((0_usize..3, 0..Flaw::ALL.len() * 2), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (rig, account) = scanned().await;
            rig.provider.world().servers.push(server_json(NEW, "delivered"));
            let mut coming = flaws.into_iter();
            spoil(&rig, move |start| {
                let (page, flaw) = coming.next()?;
                Flaw::ALL.get(flaw).copied().filter(|_| start >= page * 49)
            });
            for _ in 0..10 {
                account.request_complete_list("x", clock::now().mono);
                sleep(Duration::from_secs(60)).await;
                let all = [uuid(OLD), uuid(NEW)];
                assert!(found(&rig).iter().all(|uuid| all.contains(uuid)));
            }
            rig.provider.world().page = None;
            rig.until("a scan", || found(&rig) == [uuid(OLD), uuid(NEW)]).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_record_does_not_stop_polls() {
    let (rig, account) = scanned().await;
    rig.provider.world().page = Some(Box::new(|all, start, most| {
        let all = all.iter().take(1).chain(all);
        Some(all.skip(start).take(most).cloned().collect())
    }));
    rig.provider.set_status(7, "failed");
    rig.provider.set_status(100, "failed");
    let status = |number: usize| {
        let id = ServerId::parse(&uuid(number)).unwrap();
        account.find_server(&id).unwrap().server.status.clone()
    };
    rig.until("both are seen", || {
        [7, 100].iter().all(|n| status(*n) == ServerStatus::Failed)
    })
    .await;
    account.request_complete_list("x", clock::now().mono);
    rig.until("it is told", || account.view().last_error.is_some())
        .await;
    let (_, message) = account.view().last_error.unwrap();
    let words = format!("shows {} twice; ask the provider", uuid(1));
    assert!(message.contains(&words), "{message}");
    sleep(Duration::from_secs(900)).await;
    let view = account.view();
    assert!(view.last_error.is_some(), "polls do not hide it");
    assert!(!view.is_unreachable, "its servers are seen");
    rig.provider.world().page = None;
    rig.until("a list", || account.view().last_error.is_none())
        .await;
}
