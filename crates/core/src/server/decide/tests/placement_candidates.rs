//! Which location and type are ordered, and the report if none is available.

use super::{order::plan, *};
use crate::account::{order_supply::Demand, view::Catalogue};
use api::server::Alternative;
use hosting_types::catalogue::{Availability, PlanLocation};

/// Stock here, and there.
fn stock(here: Availability, there: Availability) -> impl Fn(Case) -> Case {
    move |case| {
        let mut plan = plan(here.clone());
        plan.locations.push(PlanLocation {
            name: "There".into(),
            data_centre: String::new(),
            availability: there.clone(),
        });
        let plans = vec![plan];
        let catalogue = Catalogue {
            plans,
            ..Catalogue::default()
        };
        case.view(|v| v.catalogue = Some((secs(990), Arc::new(catalogue))))
    }
}

fn or_there(case: Case) -> Case {
    case.spec(|s| {
        s.alternatives = vec![Alternative {
            location: Some("there".into()),
            instance_type: None,
        }];
    })
}

/// The location of the order.
fn place(case: &Case) -> Option<String> {
    match case.decide().effect {
        Some(ServerEffect::Order(plan)) => Some(plan.order.location),
        _ => None,
    }
}

#[test]
fn the_first_that_can_be_had_is_ordered() {
    use Availability::{High, Low, Unavailable};
    for (here, there, ordered) in [
        (Low, High, Some("here")),
        (Unavailable, Low, Some("there")),
        (Unavailable, Unavailable, None),
    ] {
        let case = or_there(stock(here, there)(Case::new()));
        assert_eq!(place(&case).as_deref(), ordered);
    }
    let none = or_there(stock(Unavailable, Unavailable)(Case::new())).decide();
    assert_eq!(short(&none), (None, Some(Reason::NoStock), false));
    let said = &none.desired.condition(Type::Ready).unwrap().message;
    let words = "No small in stock at here; nor is any of spec.alternatives available;";
    assert!(said.contains(words), "{said}");
}

#[test]
fn names_are_sent_as_the_provider_writes_them() {
    let case = stock(Availability::Low, Availability::Low)(Case::new());
    let Some(ServerEffect::Order(plan)) = case.decide().effect else {
        panic!("no order");
    };
    assert_eq!(plan.order.instance_type, "SMALL ");
}

#[test]
fn refusal_counts_for_the_ordered_placement() {
    use Availability::{Low, Unavailable};
    // Refused there moments ago, and polled since.
    let refused = |there: Availability| {
        let case = Case::new().ordered(Some(OrderOutcome::Refused), None);
        let case = case.object(|o| {
            let record = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
            record.location = Some("There".into());
            record.instance_type = Some("small".into());
        });
        let case = case.answered_at(988).facts(|f| f.now.wall = EPOCH + 2);
        or_there(stock(Unavailable, there)(case)).decide()
    };
    // No stock here does not explain that refusal, so the pause stays.
    let paced = (None, Some(Reason::OrderRefused), true);
    assert_eq!(short(&refused(Low)), paced);
    let no_stock = (None, Some(Reason::NoStock), false);
    assert_eq!(short(&refused(Unavailable)), no_stock);
}

#[test]
fn refused_alternative_delays_first_placement_by_one_poll() {
    use Availability::{Low, Unavailable};
    // Refused there for the seventh time, 60 s ago. Polls are 15 s apart.
    let refused = |here: Availability, ago: i64| {
        let case = Case::new().ordered(Some(OrderOutcome::Refused), None);
        let case = case.object(|o| {
            let record = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
            record.location = Some("There".into());
            record.instance_type = Some("small".into());
            record.failures = 7;
        });
        let case = case.facts(|f| f.now.wall = EPOCH + ago);
        or_there(stock(here, Low)(case))
    };
    assert_eq!(place(&refused(Unavailable, 60)), None, "the same again");
    assert_eq!(place(&refused(Low, 14)), None);
    assert_eq!(place(&refused(Low, 15)).as_deref(), Some("here"));

    // Refusals of other objects count only for the placement that would be ordered.
    let there = Demand::new("there", "small", None, false);
    let open = |here: Availability| {
        let case = or_there(stock(here, Low)(Case::new()));
        case.view(|v| v.refused = vec![(there.clone(), secs(995))])
    };
    assert_eq!(place(&open(Low)).as_deref(), Some("here"));
    assert_eq!(open(Unavailable).decide().wants_catalogue, Some(secs(995)));
}

#[test]
fn a_mistake_counts_when_it_is_reached() {
    use Availability::{Low, Unavailable};
    let wrong = |here: Availability| {
        stock(here, Low)(Case::new()).spec(|s| {
            s.alternatives = vec![Alternative {
                location: None,
                instance_type: Some("dropped".into()),
            }];
        })
    };
    assert_eq!(place(&wrong(Low)).as_deref(), Some("here"));
    let decision = wrong(Unavailable).decide();
    assert_eq!(short(&decision), (None, Some(Reason::InvalidSpec), true));
    let another = wrong(Unavailable).spec(|s| {
        s.alternatives.push(Alternative {
            location: Some("there".into()),
            instance_type: None,
        });
    });
    assert_eq!(place(&another).as_deref(), Some("there"));
}

#[test]
fn missing_location_type_or_system_is_reported() {
    type Change = fn(&mut BareMetalServerSpec);
    let lacks: [(&str, Change); 3] = [
        ("spec.location", |s| s.location = None),
        ("spec.instanceType", |s| s.instance_type = None),
        ("spec.os", |s| s.os = None),
    ];
    for (field, change) in lacks {
        let decision = or_there(Case::new()).spec(change).decide();
        assert_eq!(short(&decision), (None, Some(Reason::InvalidSpec), true));
        let message = &decision.desired.condition(Type::Ready).unwrap().message;
        assert!(message.contains(field), "{field}: {message}");
    }
}

#[test]
fn unavailable_order_reads_no_installation() {
    use Availability::{Low, Unavailable};
    let unread = |case: Case| case.facts(|f| f.installation = None);
    let gone = unread(stock(Unavailable, Low)(Case::new())).decide();
    assert_eq!((gone.wants_installation, gone.effect), (false, None));
    let there = unread(stock(Low, Low)(Case::new())).decide();
    assert_eq!((there.wants_installation, there.effect), (true, None));
}

#[test]
fn server_at_alternative_placement_is_in_sync() {
    let at = |place: &str| {
        let case = Case::new().ordered(Some(OrderOutcome::Created), Some(1));
        let case = case.with(1, ServerStatus::Delivered);
        let case = case.shown(|s| s.location = place.into());
        let decision = or_there(case).decide();
        decision.desired.condition(Type::Synced).unwrap().clone()
    };
    assert!(at("Here").status == Some(true) && at("THERE").status == Some(true));
    let lost = at("nowhere");
    assert!(lost.message.contains("spec.location is here"), "{lost:?}");
}
