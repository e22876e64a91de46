//! Any bytes as the body of every operation: an answer comes, never a 5xx, a
//! refusal is a whole error record that names the field, it changes nothing,
//! and the simulator goes on.

mod corpus;
mod fixture;
mod mutation;
mod operation;
mod places;

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simulator::Profile;
use tokio::runtime::Runtime;

use fixture::{Fixture, properties};
use operation::{ALL, Operation};

/// Runs a body through the operation it was made for.
fn run_through<S>(cases: u32, bodies: impl Fn(&'static Operation) -> S)
where
    S: Strategy<Value = Vec<u8>> + 'static,
{
    let each = ALL.iter().map(|operation| {
        let made = bodies(operation).boxed();
        made.prop_map(move |body| (operation, body)).boxed()
    });
    let any = prop::strategy::Union::new(each);
    let runtime = Runtime::new().unwrap();
    for profile in [Profile::Document, Profile::Observed] {
        let fixture = runtime.block_on(Fixture::new(profile));
        let fixture = std::cell::RefCell::new(fixture);
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new(config);
        let passed = runner.run(&any, |(operation, body)| {
            let mut fixture = fixture.borrow_mut();
            runtime.block_on(fixture.meet(operation, &body));
            Ok(())
        });
        passed.unwrap_or_else(|why| panic!("{why}"));
        runtime.block_on(fixture.borrow_mut().look_at_all());
    }
}

#[test]
fn any_bytes_are_answered() {
    // Few of these are JSON at all: what is nearly right finds more.
    run_through(60, |_| prop::collection::vec(any::<u8>(), 0..300));
}

#[test]
fn any_json_is_answered() {
    run_through(250, |operation| {
        let names = field_names(operation);
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|flag| flag.to_string()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| serde_json::json!(number).to_string()),
            ".{0,40}".prop_map(|text| serde_json::json!(text).to_string()),
        ];
        let any = leaf.prop_recursive(3, 24, 5, move |inner| {
            let name = prop::sample::select(names.clone());
            let fields = prop::collection::vec((name, inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
                fields.prop_map(|all| {
                    let all = all.iter().map(|(name, value)| format!("{name}:{value}"));
                    format!("{{{}}}", all.collect::<Vec<_>>().join(","))
                }),
            ]
        });
        any.prop_map(String::into_bytes)
    });
}

#[test]
fn what_is_nearly_right_is_answered() {
    run_through(500, |operation| mutation::near(seeds(operation)));
}

/// The short ones of the corpus.
fn seeds(operation: &Operation) -> Vec<Vec<u8>> {
    let kept = corpus::kept(operation.name).into_iter();
    let bytes = kept.map(|kept| kept.bytes);
    bytes.filter(|bytes| bytes.len() < 4_000).collect()
}

/// Names of all fields that the full body has, quoted.
fn field_names(operation: &Operation) -> Vec<String> {
    let kept = corpus::kept(operation.name);
    let full = kept.iter().find(|kept| kept.file == "full.json").unwrap();
    let text = String::from_utf8(full.bytes.clone()).unwrap();
    let ends = text.match_indices("\":").map(|(end, _)| end);
    let names = ends.map(|end| {
        let start = text[..end].rfind('"').unwrap();
        format!("\"{}\"", &text[start + 1..end])
    });
    names.chain(["\"\"".to_owned()]).collect()
}

#[tokio::test]
async fn corpus_bodies_get_their_indexed_answers() {
    let mut wrong = String::new();
    let mut number = 0;
    for operation in &ALL {
        let mut fixture = Fixture::new(Profile::Document).await;
        for kept in corpus::kept(operation.name) {
            let text = fixture.fill(&String::from_utf8_lossy(&kept.bytes));
            let body = match std::str::from_utf8(&kept.bytes) {
                Ok(_) => text.as_bytes(),
                Err(_) => &kept.bytes,
            };
            let answer = fixture.meet(operation, body).await;
            let named: BTreeSet<String> = properties(&answer).into_iter().collect();
            if (answer.status, &named) != (kept.status, &kept.properties) {
                let file = format!("{}/{}", operation.name, kept.file);
                let named: Vec<String> = named.into_iter().collect();
                let named = named.join("\t");
                writeln!(wrong, "{file}: {}\t{}\t{named}", answer.status, kept.file).unwrap();
            }
            if answer.status < 400 {
                fixture.look_at_all().await;
                fixture = Fixture::new(Profile::Document).await;
            }
            number += 1;
        }
    }
    assert!(wrong.is_empty(), "not as the index says:\n{wrong}");
    assert!(number > 500, "only {number} bodies");
}

#[tokio::test]
async fn every_operation_refuses_malformed_bodies() {
    let kept = corpus::kept("any");
    for operation in &ALL {
        let mut fixture = Fixture::new(Profile::Document).await;
        let before = fixture.views(operation.port).await;
        for kept in &kept {
            let answer = fixture.refuse(operation, &kept.bytes).await;
            let place = format!("{}: any/{}", operation.name, kept.file);
            assert_eq!(answer.status, kept.status, "{place}");
            assert!(properties(&answer).is_empty(), "{place}");
        }
        let after = fixture.views(operation.port).await;
        assert!(before == after, "{}: something changed", operation.name);
    }
}
