//! Adopts a server that the current order record did not create (rule A2 of the protocol): lists the objects live, adds
//! both tags, waits a minute, and reads the server again before it records it.

use super::{ServerContext, act, claims};
use crate::{
    account::Permit,
    controllers::{live_list::ListedServerObject, objects::ObservedObject, writes::WriteOutcome},
    runtime::clock,
};
use api::BareMetalServer;
use flexmetal_core::{
    account::{key::AccountKey, ownership_tags},
    last_error::LastError,
    owner::{self, Owner},
    protocol::adopt as rules,
    server::{
        answers, facts::ServerFacts, memory::ServerObservation, protocol_facts,
        recorded::recorded_server,
    },
};
use hosting_types::{Server, ServerId};
use std::{collections::HashSet, time::Duration};

/// Objects that adopt at the same time share a list of this age at most, far below the minute that a claim waits.
const LIST_SHARED_FOR: Duration = Duration::from_secs(5);

/// Lists the objects live and adds both tags, unless another object owns the server.
pub(super) async fn claim(
    ctx: &ServerContext,
    facts: &ServerFacts,
    permit: &mut Permit,
    id: &ServerId,
) -> ServerObservation {
    let Some((owner, record)) = facts.owner().zip(facts.order()) else {
        return ServerObservation::Stale;
    };
    let server = match read_server(permit, id).await {
        Ok(server) => server,
        Err(observation) => return observation,
    };
    let row = protocol_facts::to_protocol_server(facts, &owner, &server);
    let is_shared = protocol_facts::is_shared(facts);
    // The object list is read only if the server record alone does not decide.
    let judged = match rules::claim(&row, is_shared, false, false) {
        rules::ClaimStep::Tag => match others(ctx, facts, &server).await {
            Ok((is_recorded, is_owned)) => rules::claim(&row, is_shared, is_recorded, is_owned),
            Err(observation) => return observation,
        },
        judged => judged,
    };
    match judged {
        rules::ClaimStep::Yield => yield_server(ctx, facts).await,
        rules::ClaimStep::Wait => being_released(),
        rules::ClaimStep::Tag if act::is_late(facts) => act::too_late(),
        rules::ClaimStep::Tag => {
            let tags = [facts.cluster.tag(), owner.order_tag(record.seq)];
            tag(facts, permit, server, row.own_seq.is_some(), &tags).await
        }
    }
}

async fn read_server(permit: &mut Permit, id: &ServerId) -> Result<Server, ServerObservation> {
    let at = clock::now().mono;
    let answer = permit.read_server(id).await;
    answer.map_err(|error| answers::observe_read_answer(id.as_str(), &Err(error), at))
}

fn being_released() -> ServerObservation {
    ServerObservation::Failed(LastError::check_failed(
        "The server to be adopted is being released",
    ))
}

/// Whether another object of the same base URL records the server, and whether it has the order tag of another existing
/// object. Both by a live list.
async fn others(
    ctx: &ServerContext,
    facts: &ServerFacts,
    server: &Server,
) -> Result<(bool, bool), ServerObservation> {
    let account = super::account_of(&facts.object);
    let accounts: HashSet<AccountKey> =
        ctx.accounts.names_at_url_of(&account).into_iter().collect();
    let young = clock::now().mono.saturating_sub(LIST_SHARED_FOR);
    let since = facts.memory.protocol.unchanged_since().max(young);
    let row = |object: &ObservedObject<BareMetalServer>| row(ctx, object);
    let listed = ctx
        .live_list
        .list_started_after(since, (&ctx.watched, &ctx.client), row)
        .await;
    let listed = listed
        .map_err(|failure| ServerObservation::Failed(LastError::from_write(failure.explain())))?;
    let uid = facts.uid();
    let is_owned = ownership_tags::name_hashes(server).any(|place| listed.is_owned(place, uid));
    let is_recorded = listed.is_recorded(server.id.as_str(), uid, &accounts);
    Ok((is_recorded, is_owned))
}

fn row(ctx: &ServerContext, object: &ObservedObject<BareMetalServer>) -> ListedServerObject {
    let meta = object.meta();
    let recorded = match object {
        ObservedObject::Decoded(object) => {
            recorded_server(object).map(|server| (server, super::account_of(object)))
        }
        _ => None,
    };
    ListedServerObject {
        uid: meta.uid.clone().unwrap_or_default(),
        place: super::name_hash_of(&ctx.cluster, meta),
        recorded,
    }
}

/// Adds the missing tags; the order tag only if the server has none of this owner.
async fn tag(
    facts: &ServerFacts,
    permit: &mut Permit,
    mut server: Server,
    has_own: bool,
    [cluster, order]: &[String; 2],
) -> ServerObservation {
    let id = server.id.clone();
    for (tag, is_needed) in [(cluster, true), (order, !has_own)] {
        if !is_needed || server.has_tag(tag) {
            continue;
        }
        match act::change_tag(facts, permit, server.clone(), tag, true).await {
            ServerObservation::Done => server.tags.push(tag.clone()),
            other => return other,
        }
    }
    ServerObservation::Claimed(id.as_str().to_owned())
}

/// Reads the claimed server, then removes another owner's tag or records the server as the object's.
pub(super) async fn adopt(
    ctx: &ServerContext,
    facts: &ServerFacts,
    permit: &mut Permit,
    id: &ServerId,
) -> ServerObservation {
    let Some((owner, record)) = facts.owner().zip(facts.order()) else {
        return ServerObservation::Stale;
    };
    let server = match read_server(permit, id).await {
        Ok(server) => server,
        Err(observation) => return observation,
    };
    let row = protocol_facts::to_protocol_server(facts, &owner, &server);
    let yields = yields(ctx, facts, &owner, &server);
    match rules::finish(&protocol_facts::to_protocol_order(record), &row, yields) {
        rules::AdoptionStep::Yield => yield_server(ctx, facts).await,
        rules::AdoptionStep::ClaimAgain => ServerObservation::Unclaimed,
        rules::AdoptionStep::Wait => being_released(),
        rules::AdoptionStep::RemoveOther if act::is_late(facts) => act::too_late(),
        rules::AdoptionStep::RemoveOther => {
            let other = other_tag(&server, &owner);
            match other {
                Some(tag) => act::change_tag(facts, permit, server, &tag, false).await,
                None => ServerObservation::Unclaimed,
            }
        }
        rules::AdoptionStep::Adopted(order) => ServerObservation::Adopted(order),
    }
}

/// Whether another object takes the server too, and its owner hash sorts before this one.
fn yields(ctx: &ServerContext, facts: &ServerFacts, owner: &Owner, server: &Server) -> bool {
    let mut before = other_owners(server, owner).filter(|(_, it)| *it < owner.as_str());
    before.any(|(_, it)| {
        let place = it.get(..owner::NAME_HASH).unwrap_or_default();
        claims::adopts_recorded_server(&ctx.objects, place, facts.uid(), &server.id)
    })
}

fn other_tag(server: &Server, owner: &Owner) -> Option<String> {
    other_owners(server, owner)
        .next()
        .map(|(tag, _)| tag.clone())
}

/// The order tags of other owners, each with its owner.
fn other_owners<'a>(
    server: &'a Server,
    owner: &'a Owner,
) -> impl Iterator<Item = (&'a String, &'a str)> {
    let all = server.tags.iter();
    let owned = all.filter_map(|tag| Some((tag, owner::parse_order_tag(tag)?.0)));
    owned.filter(|(_, it)| *it != owner.as_str())
}

/// Removes the order record, on the version that was decided on: any write in between makes this stale.
async fn yield_server(ctx: &ServerContext, facts: &ServerFacts) -> ServerObservation {
    let mut status = facts.status();
    status.records.order = None;
    match ctx.write_status(&facts.object, &status).await {
        None | Some(WriteOutcome::Done(_)) => ServerObservation::Yielded,
        Some(other) => act::written(other),
    }
}
