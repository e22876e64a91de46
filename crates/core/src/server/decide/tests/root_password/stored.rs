//! A stored password: its Secret is deleted after its TTL, and its condition goes with the server.

use super::*;

#[test]
fn password_condition_goes_with_its_server() {
    let stored = stored_in(with_root_password(), "pass");
    let gone = stored.facts(|f| f.own.clear()).object(|o| {
        let status = o.status.as_mut().unwrap();
        status.uuid = None;
        status.records.root_password = None;
    });
    let kind = Type::RootPasswordStored.as_str();
    let conditions = gone.decide().desired.status.conditions;
    assert!(conditions.iter().all(|c| c.type_ != kind));
}

#[test]
fn replacement_starts_without_the_password_condition() {
    let stored = stored_in(with_root_password(), "pass");
    let mut desired = stored.decide().desired;
    assert!(desired.condition(Type::RootPasswordStored).is_some());
    desired.status = desired.finish(Timestamp::from_second(START).unwrap());
    desired.forget_server();
    let next = desired.finish(Timestamp::from_second(START).unwrap());
    let kind = Type::RootPasswordStored.as_str();
    assert!(next.conditions.iter().all(|c| c.type_ != kind));
    assert!(!next.conditions.is_empty());
}

#[test]
fn secret_is_deleted_only_after_its_ttl() {
    let stored = stored_in(at(stored_for(with_root_password(), 3600), 600), "pass");
    let ends = INSTALLED + 600 + 3600;
    assert_eq!(step(&at(stored.clone(), 600 + 3599)), "none");
    let over = at(stored.clone(), 600 + 3600);
    assert_eq!(step(&over), "forget");
    assert_eq!(
        deletion_due_at(&over.0, &first_installation(), "pass"),
        Some(ends)
    );
    assert_eq!(
        deletion_due_at(&stored.0, &first_installation(), "pass"),
        None
    );
    assert_eq!(
        deletion_due_at(&over.0, &first_installation(), "other"),
        None
    );
    let raised = stored_for(over.clone(), 7200);
    assert_eq!(step(&raised), "none");
    assert_eq!(
        deletion_due_at(&raised.0, &first_installation(), "pass"),
        None
    );
    assert_eq!(
        step(&named(over.clone(), "pass")),
        "none",
        "without a ttl it stays"
    );
    // In any state of the server and its spec.
    for case in [
        over.clone().spec(|s| s.root_password = None),
        over.clone().spec(|s| s.suspend = Some(true)),
        over.clone().blocked(Reason::KeyRejected),
    ] {
        let effect = case.decide().effect;
        let is_it = matches!(&effect, Some(ServerEffect::ForgetPassword { secret, .. }) if secret == "pass");
        assert!(is_it, "{effect:?}");
        assert_eq!(
            deletion_due_at(&case.0, &first_installation(), "pass"),
            Some(ends)
        );
    }
    let deleting = over.clone().deleting().spec(|s| s.suspend = Some(true));
    assert_eq!(step(&deleting), "forget");
    // A failed step backs off.
    let refused = failed(over.clone(), PasswordFailure::Error("no".into()));
    assert_eq!(step(&refused), "none");
    let text = password_condition(&refused).message;
    assert!(
        text.contains("due for deletion since") && text.contains("no;"),
        "{text}"
    );
    assert_eq!(step(&later(refused, 15)), "forget");
    let gone = seen(over, PasswordEnd::Deleted);
    assert_eq!(step(&gone), "none");
    let deleted = gone.decide().desired.status.records.root_password.unwrap();
    assert!(deleted.deleted_at.is_some());
    let recorded = restarted(written(gone));
    assert_eq!(
        (step(&recorded), password_condition(&recorded).reason),
        ("none", Reason::InSync)
    );
}

#[test]
fn removed_password_spec_keeps_stored_record() {
    let stored = stored_in(with_root_password(), "pass");
    let without = stored.spec(|s| s.root_password = None);
    let status = without
        .decide()
        .desired
        .finish(Timestamp::from_second(START).unwrap());
    let kind = Type::RootPasswordStored.as_str();
    assert!(status.conditions.iter().all(|c| c.type_ != kind));
    assert!(
        status
            .records
            .root_password
            .is_some_and(|p| p.stored_at.is_some())
    );
}
