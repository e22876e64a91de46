//! Operators that let go of machines, or keep no track of them.

use super::{
    super::{
        pass::Variant,
        rules,
        scene::{Brought, Scene},
        world::Fault::*,
    },
    caught,
};

#[test]
fn a_finalizer_dropped_on_denial_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Deny, 1), (Delete, 1)],
        ..Scene::default()
    };
    caught(Variant::LetGoOnDenial, rules::HELD, scene);
}

#[test]
fn a_copied_annotation_that_is_honoured_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Copy, 1), (Delete, 1)],
        ..Scene::default()
    };
    caught(Variant::CopyHonoured, rules::OWN_DELETE, scene);
}

#[test]
fn a_release_that_was_not_noted_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Crash, 1), (Lost, 1), (Delete, 1), (Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::NoReleaseBegun, rules::OWN_DELETE, scene);
}

#[test]
fn a_machine_let_go_after_its_release_was_noted_is_caught() {
    let scene = Scene {
        delivered: true,
        processes: 2,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 2)],
        ..Scene::default()
    };
    caught(Variant::LateRetain, rules::TOO_LATE, scene);
}

#[test]
fn a_server_error_taken_for_the_refusal_of_a_release_is_caught() {
    let scene = Scene {
        ticks: 3,
        faults: vec![(Fail, 1), (Delete, 1), (ServerError, 1)],
        ..Scene::default()
    };
    caught(Variant::ErrorRefusesRelease, rules::HELD, scene);
}

#[test]
fn an_unknown_machine_taken_for_the_refusal_of_a_release_is_caught() {
    let scene = Scene {
        ticks: 3,
        faults: vec![(Fail, 1), (Delete, 1), (Blank, 1)],
        ..Scene::default()
    };
    caught(Variant::NotFoundRefusesRelease, rules::HELD, scene);
}

#[test]
fn a_machine_retained_by_a_former_policy_is_caught() {
    let scene = Scene {
        delivered: true,
        stale: true,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 2)],
        ..Scene::default()
    };
    caught(Variant::FormerPolicy, rules::IN_SIGHT, scene);
}

#[test]
fn metadata_that_is_not_put_back_is_caught() {
    let scene = Scene {
        delivered: true,
        regular: true,
        ticks: 1,
        faults: vec![(StripNote, 1), (Deny, 1)],
        ..Scene::default()
    };
    caught(Variant::NotPutBack, rules::ENDS, scene);
}

#[test]
fn a_closed_order_that_is_put_back_is_caught() {
    let scene = Scene {
        regular: true,
        ticks: 2,
        faults: vec![(Refuse, 1), (StripNote, 1)],
        ..Scene::default()
    };
    caught(Variant::ClosedPutBack, rules::CLOSED, scene);
}

#[test]
fn a_twin_that_the_release_of_the_first_holds_is_caught() {
    let scene = Scene {
        delivered: true,
        twin: true,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::AnyReleaseBegun, rules::ENDS, scene);
}

#[test]
fn a_retained_machine_let_go_on_one_read_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 1), (Blank, 1)],
        ..Scene::default()
    };
    caught(Variant::RetainUnproved, rules::HELD, scene);
}

#[test]
fn an_order_beside_a_machine_that_is_kept_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Edit, 1), (ApplyAgain, 1)],
        ..Scene::default()
    };
    caught(Variant::KeptIgnored, rules::BESIDE, scene);
}

#[test]
fn a_token_of_fewer_machines_than_are_kept_is_caught() {
    let scene = Scene {
        delivered: true,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 2), (Edit, 2), (ApplyAgain, 2), (OrderAnother, 1)],
        writes: 14,
        ..Scene::default()
    };
    caught(Variant::AnyToken, rules::BESIDE, scene);
}

#[test]
fn a_release_of_a_suspended_object_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Delete, 1), (Crash, 1), (Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::SuspendIgnored, rules::SUSPENDED, scene);
}

#[test]
fn a_release_while_the_kind_is_deleted_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(KindDeleted, 1)],
        ..Scene::default()
    };
    caught(Variant::KindIgnored, rules::KIND, scene);
}

#[test]
fn a_release_before_its_delay_is_over_is_caught() {
    let scene = Scene {
        delivered: true,
        regular: true,
        delay: 2,
        ticks: 1,
        faults: vec![(Delete, 1)],
        ..Scene::default()
    };
    caught(Variant::DelayIgnored, rules::EARLY, scene);
}

#[test]
fn a_machine_taken_on_that_another_object_has_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Unmarked(2)),
        regular: true,
        ticks: 3,
        ..Scene::default()
    };
    caught(Variant::OthersIgnored, rules::HOLDERS, scene);
}

#[test]
fn an_order_of_an_object_that_names_its_machine_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Unmarked(1)),
        regular: true,
        ticks: 4,
        ..Scene::default()
    };
    caught(Variant::NamedIgnored, rules::NAMED, scene);
}

#[test]
fn a_change_of_a_machine_that_is_only_looked_at_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Unmarked(1)),
        regular: true,
        ticks: 1,
        faults: vec![(Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::ObserveIgnored, rules::OBSERVED, scene);
}

#[test]
fn an_object_that_goes_without_a_look_at_the_machine_it_marked_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Unmarked(1)),
        ticks: 1,
        faults: vec![(Delete, 1), (Crash, 1)],
        ..Scene::default()
    };
    caught(Variant::EndUnlisted, rules::HELD, scene);
}

#[test]
fn another_order_as_soon_as_a_machine_failed_is_caught() {
    let scene = Scene {
        delivered: true,
        replaces: true,
        regular: true,
        ticks: 2,
        faults: vec![(Fail, 1), (Flap, 1)],
        ..Scene::default()
    };
    caught(Variant::GraceIgnored, rules::ONE_MACHINE, scene);
}

#[test]
fn orders_for_as_long_as_machines_fail_are_caught() {
    let scene = Scene {
        delivered: true,
        replaces: true,
        regular: true,
        ticks: 8,
        faults: vec![(Fail, 2)],
        writes: 20,
        ..Scene::default()
    };
    caught(Variant::RowIgnored, rules::ROW, scene);
}

#[test]
fn a_failed_machine_taken_for_that_of_the_next_order_is_caught() {
    let scene = Scene {
        delivered: true,
        replaces: true,
        regular: true,
        ticks: 5,
        faults: vec![(Fail, 1), (Lost, 1)],
        ..Scene::default()
    };
    caught(Variant::EarlierCounts, rules::ENDS, scene);
}

#[test]
fn an_object_that_ends_too_early_is_caught() {
    let scene = Scene {
        delivered: true,
        regular: true,
        expires: 3,
        ticks: 2,
        ..Scene::default()
    };
    caught(Variant::EarlyEnd, rules::EXPIRY, scene);
}

#[test]
fn an_order_after_the_end_is_caught() {
    let scene = Scene {
        regular: true,
        expires: 1,
        ticks: 2,
        ..Scene::default()
    };
    caught(Variant::EndIgnored, rules::EXPIRY, scene);
}

#[test]
fn releases_over_the_release_limit_are_caught() {
    let scene = Scene {
        delivered: true,
        release_limited: true,
        regular: true,
        ticks: 1,
        faults: vec![(Delete, 2)],
        ..Scene::default()
    };
    caught(Variant::ReleaseLimitIgnored, rules::RELEASE_LIMIT, scene);
}

#[test]
fn a_release_that_rests_on_an_older_listing_is_caught() {
    let scene = Scene {
        delivered: true,
        ticks: 1,
        faults: vec![(Older, 1), (Delete, 1), (Lost, 1), (Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::NoReread, rules::SUSPENDED, scene);
}

#[test]
fn a_mark_that_rests_on_an_older_listing_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Unmarked(1)),
        ticks: 1,
        faults: vec![(Older, 1), (Delete, 1)],
        ..Scene::default()
    };
    caught(Variant::NoReread, rules::IN_SIGHT, scene);
}

#[test]
fn a_machine_that_is_put_on_record_as_it_was_last_seen_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Unmarked(2)),
        regular: true,
        processes: 2,
        ticks: 0,
        writes: 3,
        ..Scene::default()
    };
    caught(Variant::ClaimUnread, rules::HOLDERS, scene);
}

#[test]
fn a_machine_that_counts_as_kept_after_its_tag_went_without_an_answer_is_caught() {
    let scene = Scene {
        brought: Some(Brought::Kept),
        regular: true,
        ticks: 1,
        faults: vec![(Lost, 1), (Delete, 1), (Edit, 1)],
        ..Scene::default()
    };
    caught(Variant::LostMarkStays, rules::HELD, scene);
}
