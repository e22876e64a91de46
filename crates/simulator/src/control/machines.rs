//! Machines: their full records, and changes that somebody else makes.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::catalogue::Offer;
use super::super::clock::Moment;
use super::super::rules::{MAX_TAGS, tag_is_valid};
use super::super::state::{Alteration, Machine, Newcomer, Status};
use super::super::world::{Shared, World};
use super::{Path, Query, Unfollowed, Which, read};

/// `GET /_simulator/machines`: all of them, in order of creation.
pub(super) async fn list(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
) -> Result<Json<Value>, Unfollowed> {
    let (world, now) = shared.settled();
    let of = which.place(&world)?;
    let machines = world.accounts[of].machines().iter();
    Ok(Json(
        machines
            .map(|machine| shown(&world, of, machine, now))
            .collect(),
    ))
}

/// `GET /_simulator/machines/{uuid}`
pub(super) async fn show(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    Path(uuid): Path<String>,
) -> Result<Json<Value>, Unfollowed> {
    let (world, now) = shared.settled();
    let of = which.place(&world)?;
    one(&world, of, &uuid, now)
}

/// The record that the API shows, and everything that it does not show.
fn shown(world: &World, of: usize, machine: &Machine, now: Moment) -> Value {
    let mut record = machine.record(now, &world.accounts[of].catalogue, &world.switches);
    if let Some(fields) = record.as_object_mut() {
        fields.insert("history".into(), json!(machine.history));
        fields.insert("tagHistory".into(), json!(machine.taggings));
        fields.insert("releases".into(), json!(machine.releases));
        fields.insert("next".into(), json!(machine.plan));
        fields.insert("hidden".into(), json!(machine.hidden));
        fields.insert("ordered".into(), json!(machine.ordered));
        fields.insert("power".into(), json!(machine.power(now)));
        fields.insert("commands".into(), json!(machine.commands));
    }
    record
}

fn one(world: &World, of: usize, uuid: &str, now: Moment) -> Result<Json<Value>, Unfollowed> {
    let found = world.accounts[of].by_name(uuid);
    found
        .map(|machine| Json(shown(world, of, machine, now)))
        .ok_or(Unfollowed::NotFound)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Appearance {
    name: String,
    #[serde(default = "rotterdam")]
    location: String,
    #[serde(default = "smallest")]
    instance_type: String,
    #[serde(default)]
    os: System,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default = "delivered")]
    status: Status,
    /// Virtual Unix seconds; now when absent.
    created_at: Option<u64>,
}

/// The slug of a system, by itself or as an order has it.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "os must be a slug, or {\"slug\": …} and nothing else"
)]
enum System {
    Slug(String),
    Ordered(Slugged),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slugged {
    slug: String,
}

impl Default for System {
    fn default() -> Self {
        Self::Slug("ubuntu-2404-lts".to_owned())
    }
}

impl System {
    fn slug(self) -> String {
        match self {
            Self::Slug(slug) | Self::Ordered(Slugged { slug }) => slug,
        }
    }
}

fn rotterdam() -> String {
    "EU: Rotterdam".to_owned()
}

fn smallest() -> String {
    "bm7.std.8".to_owned()
}

fn delivered() -> Status {
    Status::Delivered
}

/// `POST /_simulator/machines`: a machine that somebody else ordered.
pub(super) async fn appear(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let wanted: Appearance = read(&body)?;
    possible(&wanted.tags)?;
    let (mut world, now) = shared.settled();
    let of = which.place(&world)?;
    let world = &mut *world;
    let newcomer = Newcomer {
        name: wanted.name,
        offer: offer(world, of, &wanted.location, &wanted.instance_type)?,
        slug: wanted.os.slug(),
        tags: wanted.tags,
        status: wanted.status,
        created_at: wanted.created_at.map_or(now, Moment::from_unix).min(now),
    };
    let mut rng = world.luck.draw();
    let account = &mut world.accounts[of];
    let uuid = account.appear(newcomer, &world.settings, &world.switches, &mut rng);
    one(world, of, &uuid.to_string(), now)
}

/// `PATCH /_simulator/machines/{uuid}`: a person in the portal.
pub(super) async fn alter(
    State(shared): State<Shared>,
    Query(which): Query<Which>,
    Path(uuid): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Unfollowed> {
    let change: Alteration = read(&body)?;
    possible(change.tags.as_deref().unwrap_or_default())?;
    let (mut world, now) = shared.settled();
    let of = which.place(&world)?;
    let lasting = world.settings.release;
    let altered = world.accounts[of].alter(&uuid, change, now, lasting);
    altered.map_err(|_| Unfollowed::NotFound)?;
    one(&world, of, &uuid, now)
}

/// Refuses tags that the API could not have (sections 8-1 and 8-2).
fn possible(tags: &[String]) -> Result<(), Unfollowed> {
    let problem = match tags.iter().find(|tag| !tag_is_valid(tag)) {
        Some(bad) => format!("tag {bad:?} must match ^[A-Za-z0-9_:-]{{1,64}}$"),
        None if tags.len() > MAX_TAGS => format!("a server has at most {MAX_TAGS} tags"),
        None => return Ok(()),
    };
    Err(Unfollowed::Value(problem))
}

/// The offer that two names stand for.
pub(super) fn offer(
    world: &World,
    of: usize,
    location: &str,
    instance_type: &str,
) -> Result<Offer, Unfollowed> {
    let catalogue = &world.accounts[of].catalogue;
    let place = catalogue.location(location, &world.switches);
    let kind = catalogue.instance_type(instance_type, &world.switches);
    let offer = place.zip(kind).map(|(place, kind)| Offer {
        location: place.id,
        instance_type: kind.id,
    });
    offer
        .filter(|offer| catalogue.offers(*offer))
        .ok_or_else(|| {
            Unfollowed::Value(format!("{instance_type:?} is not offered at {location:?}"))
        })
}
