//! Switches off single rules of the protocol, by changing the inputs or the result of the decision code.

use super::{
    scene::Scene,
    world::{Obj, span},
};
use flexmetal_core::protocol::{
    KnownServerCheck, ListSummary, ProtocolOrder, ProtocolOutcome, ProtocolServer, ProtocolStep,
    ProtocolView, ServerPhase, Wait, memory::OrdersInFlight,
};

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    Precondition,
    Nonce,
    OnlyWriterSends,
    SendBy,
    FreshList,
    Whole,
    RestartNew,
    RestartClosed,
    Grace,
    AbsentGrace,
    TwoLists,
    KnownServer,
    KnownServerUnknown,
    Suspect,
    FindAlways,
    DeadOlder,
    RecordUid,
    ReleaseUid,
    PreviousServersBlock,
    Claim,
    Settle,
    LiveList,
    KeepOwnTag,
    Yield,
    OneOwner,
    AdoptRead,
    OwnFirst,
    OtherCluster,
    OtherNamespace,
    OneTag,
    FreshRead,
    DeleteBy,
    ReleaseRecord,
    RecordBinds,
    FinalizerPrecondition,
    GoneGrace,
    CompleteListAtEnd,
    ConfirmBeforeFinalizer,
    RestoreFinalizer,
    Unretain,
    AnyTag,
    NewKey,
    RecordedStays,
}

impl Rule {
    pub const ALL: [Self; 43] = [
        Self::Precondition,
        Self::Nonce,
        Self::OnlyWriterSends,
        Self::SendBy,
        Self::FreshList,
        Self::Whole,
        Self::RestartNew,
        Self::RestartClosed,
        Self::Grace,
        Self::AbsentGrace,
        Self::TwoLists,
        Self::KnownServer,
        Self::KnownServerUnknown,
        Self::Suspect,
        Self::FindAlways,
        Self::DeadOlder,
        Self::RecordUid,
        Self::ReleaseUid,
        Self::PreviousServersBlock,
        Self::Claim,
        Self::Settle,
        Self::LiveList,
        Self::KeepOwnTag,
        Self::Yield,
        Self::OneOwner,
        Self::AdoptRead,
        Self::OwnFirst,
        Self::OtherCluster,
        Self::OtherNamespace,
        Self::OneTag,
        Self::FreshRead,
        Self::DeleteBy,
        Self::ReleaseRecord,
        Self::RecordBinds,
        Self::FinalizerPrecondition,
        Self::GoneGrace,
        Self::CompleteListAtEnd,
        Self::ConfirmBeforeFinalizer,
        Self::RestoreFinalizer,
        Self::Unretain,
        Self::AnyTag,
        Self::NewKey,
        Self::RecordedStays,
    ];
}

fn believed(list: Option<ListSummary>) -> Option<ListSummary> {
    list.map(|list| ListSummary {
        known: KnownServerCheck::Shown,
        ..list
    })
}

impl Scene {
    pub fn bend_servers(&self, servers: &mut [ProtocolServer]) {
        for server in servers {
            match self.off {
                Some(Rule::Suspect) => server.is_untagged_namesake = false,
                Some(Rule::PreviousServersBlock) => server.is_of_previous_namespace = false,
                Some(Rule::OtherCluster) => server.has_other_cluster = false,
                Some(Rule::OtherNamespace) => server.has_other_namespace = false,
                Some(Rule::OneTag) => server.has_other_owner = false,
                _ => {}
            }
        }
    }

    pub fn bend_view(&self, view: &mut ProtocolView<'_>) {
        let order = view.order();
        let outcome = order.map(|order| order.outcome);
        let in_flight = view.memory.in_flight();
        let is_open = outcome == Some(ProtocolOutcome::Open);
        match self.off {
            Some(Rule::RestartNew) if outcome.is_none() => view.times.restart = span(0),
            Some(Rule::RestartClosed) if outcome.is_some() => view.times.restart = span(0),
            Some(Rule::Grace) if in_flight == OrdersInFlight::Possible && !is_open => {
                view.times.grace = span(0);
            }
            Some(Rule::AbsentGrace) if is_open => view.times.grace = span(0),
            Some(Rule::TwoLists) if is_open || outcome.is_none() => {
                view.times.flight_time = span(0)
            }
            Some(Rule::KnownServerUnknown)
                if view
                    .account_list
                    .is_some_and(|l| l.known == KnownServerCheck::NoneExists) =>
            {
                (view.cluster_list, view.account_list) =
                    (believed(view.cluster_list), believed(view.account_list));
            }
            Some(Rule::Settle) if matches!(outcome, Some(ProtocolOutcome::Adopting(_))) => {
                view.times.flight_time = span(0);
            }
            Some(Rule::GoneGrace) if order.is_some() && !is_open => view.times.grace = span(0),
            Some(Rule::RecordedStays) => {
                if let Some(ProtocolOutcome::Created(recorded)) = outcome
                    && view.own_live(None).is_some_and(|own| own.id != recorded)
                    && let Some(order) = &mut view.object.order
                {
                    order.outcome = ProtocolOutcome::Absent;
                }
            }
            Some(Rule::RecordBinds)
                if view.object.end != flexmetal_core::protocol::DeletionAction::Release =>
            {
                view.object.release = None;
            }
            _ => {}
        }
    }

    /// The servers of an object with this record, if a rule on own servers is off.
    pub fn bend_own(
        &self,
        order: Option<&ProtocolOrder>,
        object: &Obj,
        servers: &mut [ProtocolServer],
    ) {
        for server in servers {
            let is_closed = order.is_some_and(ProtocolOrder::is_closed);
            let is_recorded = object.has().is_some_and(|at| at as u128 == server.id.0);
            match self.off {
                Some(Rule::FindAlways) if is_closed && !is_recorded => server.own_seq = None,
                Some(Rule::DeadOlder) => {
                    let open = order.filter(|order| order.outcome == ProtocolOutcome::Open);
                    if let Some(order) = open
                        && server.own_seq.is_some()
                        && server.state != ServerPhase::Live
                    {
                        server.own_seq = Some(order.seq);
                    }
                }
                Some(Rule::OwnFirst) => {
                    let is_named = object.names.is_some_and(|at| u128::from(at) == server.id.0);
                    if object.names.is_some() && !is_named && order.is_none() {
                        server.own_seq = None;
                    }
                }
                _ => {}
            }
        }
    }

    pub fn bend_step(&self, step: ProtocolStep, object: &Obj) -> ProtocolStep {
        let waits = matches!(step, ProtocolStep::Wait(Wait { list: Some(_), .. }));
        let order = object.record();
        let is_closed = order.is_some_and(|order| order.is_closed());
        match (self.off, step) {
            (Some(Rule::Claim), ProtocolStep::Record(Some(order))) => match order.outcome {
                ProtocolOutcome::Adopting(server) => {
                    ProtocolStep::Record(Some(order.with(ProtocolOutcome::Created(server))))
                }
                _ => step,
            },
            (Some(Rule::CompleteListAtEnd), _) if object.deleting && waits && !is_closed => {
                ProtocolStep::RemoveFinalizer
            }
            (Some(Rule::ConfirmBeforeFinalizer), _) if object.deleting && waits && is_closed => {
                ProtocolStep::RemoveFinalizer
            }
            (Some(Rule::Unretain), ProtocolStep::Unretain(server)) => {
                ProtocolStep::Reconcile(server)
            }
            _ => step,
        }
    }
}
