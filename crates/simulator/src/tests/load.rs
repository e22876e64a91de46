//! Ten thousand machines.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::catalogue::{Catalogue, Offer};
use super::super::clock::Moment;
use super::super::options::Profile as P;
use super::super::profile::Switches;
use super::super::rules::Order;
use super::super::state::{
    Account, Chances, Lens, ListQuery, Login, Numbers, Settings, StatusFilter,
};
use super::*;

#[test]
fn ten_thousand_machines_are_no_problem() {
    use rand::SeedableRng;
    const MACHINES: usize = 10_000;
    let mut rng = rand::rngs::StdRng::seed_from_u64(1);
    let switches = Switches::of(P::Observed);
    let span = Delivery {
        min: Duration::from_secs(180),
        max: Duration::from_secs(900),
    };
    let settings = Settings {
        chances: Chances {
            span,
            failure_rate: 0.0,
        },
        release: Duration::from_secs(5),
        list_lag: Duration::ZERO,
        command: Duration::ZERO,
        install: Duration::ZERO,
        command_failure_rate: 0.0,
    };
    let mut account = Account::new(
        "main",
        Arc::new(Catalogue::builtin().unwrap()),
        Numbers::default(),
        Login::new("a@example.com", "x"),
    );
    let now = Moment::from_unix(START);
    let began = Instant::now();
    for number in 0..MACHINES {
        let order = Order {
            name: format!("n{number}"),
            offer: Offer {
                location: 6,
                instance_type: 1,
            },
            slug: "debian-13".to_owned(),
            tags: vec!["cluster".to_owned(), format!("order-{number}")],
            contract: None,
            overflow: false,
            keys: Vec::new(),
        };
        account
            .order(now, order, &settings, &switches, &mut rng, None)
            .unwrap();
    }
    let later = now.after(Duration::from_secs(900));
    account.settle(later, &switches);
    let lens = Lens {
        at: later,
        lag: Duration::ZERO,
    };
    let query = |tag: &str| ListQuery {
        status: Some(StatusFilter::read("delivered", &switches).unwrap()),
        tags: vec!["cluster".to_owned(), tag.to_owned()],
    };
    for number in 0..MACHINES {
        let query = query(&format!("order-{number}"));
        assert_eq!(account.list(&query, lens, &switches).count(), 1);
    }
    assert_eq!(
        account.list(&query("cluster"), lens, &switches).count(),
        MACHINES
    );
    // A generous bound for a slow, busy machine and a debug build: it catches
    // a look-up by tag that reads every machine, which takes minutes here.
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}
