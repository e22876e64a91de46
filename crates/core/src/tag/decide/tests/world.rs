//! A simulated world with lost answers, late lists, crashes, edits and other users. In every run no doubtful request is
//! repeated, and the account ends as declared.

use super::*;
use crate::{last_error::LastError, tag::facts::TagObservation};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Time between two reconciles.
const STEP: Duration = Duration::from_secs(20);
/// Steps without faults after which everything must be settled.
const SETTLES: usize = 200;

/// What happens in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Nothing special.
    Fine,
    /// A request does not arrive, and its sender does not know.
    CallLost,
    /// A request arrives, and its answer is lost.
    AnswerLost,
    /// A request arrives some steps later; its sender does not know.
    ArrivesLate,
    /// The process forgets everything after the request.
    Crash,
    /// Polls return the list of some steps ago.
    ListLate,
    /// The poll returns an empty list.
    ListEmpty,
    /// The object is edited to another tag.
    Edit,
    /// Another user creates the wanted tag.
    MadeByOthers,
    /// Another user deletes all tags.
    AllDeleted,
}

struct World {
    case: Case,
    tags: BTreeMap<String, i64>,
    /// The lists of the last steps.
    previous_lists: VecDeque<BTreeMap<String, i64>>,
    late: usize,
    is_blank: bool,
    /// Requests that arrive later, with the step at which they do.
    under_way: Vec<(usize, TagEffect)>,
    step: usize,
    /// A rename was sent while another one could still arrive.
    is_blind: bool,
}

impl World {
    fn new() -> Self {
        Self {
            case: Case::new(),
            tags: BTreeMap::new(),
            previous_lists: VecDeque::new(),
            late: 0,
            is_blank: false,
            under_way: Vec::new(),
            step: 0,
            is_blind: false,
        }
    }

    fn now(&self) -> Duration {
        NOW + STEP * u32::try_from(self.step).unwrap()
    }

    /// The provider handles the request. Returns the HTTP status of a refusal.
    fn carry_out(&mut self, effect: &TagEffect) -> Result<(), u16> {
        let tags = &mut self.tags;
        match effect {
            TagEffect::Make { tag } if tags.contains_key(tag) => Err(422),
            TagEffect::Make { tag } => {
                tags.insert(tag.clone(), 0);
                Ok(())
            }
            TagEffect::Rename { rename, .. } => {
                let Some(count) = tags.get(&rename.from).copied() else {
                    return Err(404);
                };
                if tags.contains_key(&rename.to) {
                    return Err(409);
                }
                tags.remove(&rename.from);
                tags.insert(rename.to.clone(), count);
                Ok(())
            }
            TagEffect::Delete { tag, .. } => tags.remove(tag).map(drop).ok_or(404),
            TagEffect::AddFinalizer { .. } | TagEffect::RemoveFinalizer => Ok(()),
        }
    }

    fn step(&mut self, fate: Fate) {
        self.step += 1;
        let step = self.step;
        let (due, later) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|(at, _)| *at <= step);
        self.under_way = later;
        let due: Vec<(usize, TagEffect)> = due;
        for (_, effect) in due {
            let _ = self.carry_out(&effect);
        }
        match fate {
            Fate::Edit => {
                let to = match self.case.0.subject.object.wanted() {
                    "web" => "www",
                    _ => "web",
                };
                self.case = self.case.clone().renamed_to(to);
            }
            Fate::MadeByOthers => {
                let wanted = self.case.0.subject.object.wanted().to_owned();
                self.tags.entry(wanted).or_insert(0);
            }
            Fate::AllDeleted => self.tags.clear(),
            _ => {}
        }
        self.previous_lists.push_front(self.tags.clone());
        self.previous_lists.truncate(4);
        self.late = match fate {
            Fate::ListLate => 3,
            _ => self.late.saturating_sub(1),
        };
        self.is_blank = fate == Fate::ListEmpty;
        self.list_tags();
        let decision = self.case.decide();
        let now = self.now();
        let Some(effect) = decision.effect.clone() else {
            let subject = &self.case.0.subject;
            let (status, _) = decision.status(subject, jiff::Timestamp::UNIX_EPOCH);
            let case = self.case.clone().object(|o| o.status = Some(status));
            self.case = case.facts(|f| f.subject.memory.reported = Some(now));
            return;
        };
        // RemoveFinalizer is not carried out, so the object stays until the end of the test.
        if effect != TagEffect::RemoveFinalizer
            && self.case.0.subject.memory.backoff.remaining(now).is_none()
        {
            self.act(&effect, fate);
        }
    }

    /// Polls the account's tags and refreshes the memory.
    fn list_tags(&mut self) {
        let now = self.now();
        let shown = &self.previous_lists[self.late.min(self.previous_lists.len() - 1)];
        let shown: Vec<(&str, i64)> = shown.iter().map(|(tag, count)| (&**tag, *count)).collect();
        let shown = match self.is_blank {
            true => tags(&[]),
            false => tags(&shown),
        };
        let case = self.case.clone();
        let case = case.view(|v| v.tags = Some((now, Arc::new(shown))));
        let case = case.facts(|f| f.subject.now.mono = now);
        let facts = case.0.clone();
        self.case = case.own(|own| own.refresh(&facts));
    }

    fn act(&mut self, effect: &TagEffect, fate: Fate) {
        let now = self.now();
        let (rename, made) = match effect {
            TagEffect::Make { tag } => (None, Some(tag.clone())),
            TagEffect::Rename { rename, .. } => (Some(rename.clone()), Some(rename.to.clone())),
            TagEffect::Delete { .. } | TagEffect::RemoveFinalizer => (None, None),
            TagEffect::AddFinalizer { annotation } => {
                if fate == Fate::CallLost {
                    return self.record_observation(TagObservation::Wrote(Ended::Stale), fate);
                }
                self.case = match annotation {
                    Some(n) => self
                        .case
                        .clone()
                        .with_annotation(&n.tag, n.from.as_deref(), n.made),
                    None => self.case.clone().with_finalizer(),
                };
                let rename = annotation.as_ref().and_then(rename_of);
                return self.record_observation(TagObservation::Annotated(rename), fate);
            }
        };
        let deleted = match effect {
            TagEffect::Delete { tag, .. } => Some(tag.clone()),
            _ => None,
        };
        let is_rename = |effect: &TagEffect| matches!(effect, TagEffect::Rename { .. });
        self.is_blind |= is_rename(effect) && self.under_way.iter().any(|(_, e)| is_rename(e));
        let result = match fate {
            Fate::CallLost => None,
            Fate::ArrivesLate => {
                self.under_way.push((self.step + 2, effect.clone()));
                None
            }
            Fate::AnswerLost | Fate::Crash => {
                let _ = self.carry_out(effect);
                None
            }
            _ => Some(self.carry_out(effect)),
        };
        let at = now;
        let observation = match (result, made) {
            (Some(Ok(())), Some(tag)) => TagObservation::Made { tag, at },
            (Some(Ok(())), None) => {
                let tag = deleted.unwrap_or_default();
                TagObservation::Deleted { tag, at }
            }
            (Some(Err(404)), _) | (Some(Err(_)), None) => TagObservation::Differs { at },
            (Some(Err(_)), Some(tag)) => {
                let message = "no".into();
                TagObservation::Refused(TagRefusal { tag, message, at })
            }
            (None, _) => TagObservation::Unknown {
                rename,
                at,
                last_error: LastError::check_failed("lost"),
            },
        };
        self.record_observation(observation, fate);
    }

    fn record_observation(&mut self, observation: TagObservation, fate: Fate) {
        let now = self.now();
        self.case = self.case.clone().facts(|f| {
            let memory = &mut f.subject.memory;
            if fate == Fate::Crash {
                *memory = Memory::default();
                f.subject.leader_since = now;
                return;
            }
            let ended: Ended = memory.own.record_observation(observation);
            memory.record_effect(ended, now);
        });
    }

    fn is_settled(&self) -> bool {
        let wanted = self.case.0.subject.object.wanted();
        self.case.outcome() == (None, Some(Reason::Available))
            && self.case.0.recorded() == Some(wanted)
            && self.tags.contains_key(wanted)
    }

    /// Deletes the object and runs steps without faults.
    fn end(&mut self) {
        self.case = self.case.clone().deleted();
        for _ in 0..SETTLES {
            self.step(Fate::Fine);
        }
    }
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Fine),
        1 => Just(Fate::CallLost),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::ArrivesLate),
        1 => Just(Fate::Crash),
        1 => Just(Fate::ListLate),
        1 => Just(Fate::ListEmpty),
        2 => Just(Fate::Edit),
        1 => Just(Fate::MadeByOthers),
        1 => Just(Fate::AllDeleted),
    ];
    prop::collection::vec(fate, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tag_converges_without_blind_retries(
        fates in fates(),
    ) {
        let mut world = World::new();
        for fate in &fates {
            world.step(*fate);
            prop_assert!(!world.is_blind, "a rename was sent while another could still arrive");
        }
        for _ in 0..SETTLES {
            world.step(Fate::Fine);
        }
        let is_taken = world.case.outcome().1 == Some(Reason::NameTaken);
        prop_assert!(
            world.is_settled() || is_taken,
            "{:?} {:?}", world.tags, world.case.decide()
        );
        let wanted = world.case.0.recorded().unwrap().to_owned();
        let made = world.case.0.has_made(&wanted);
        world.end();
        prop_assert_eq!(world.case.decide().effect, Some(TagEffect::RemoveFinalizer));
        prop_assert_eq!(world.tags.contains_key(&wanted), !made, "{:?}", world.tags);
    }

    #[test]
    fn late_or_empty_lists_lose_no_tag(fates in fates()) {
        let mut world = World::new();
        (0..5).for_each(|_| world.step(Fate::Fine));
        prop_assert!(world.is_settled());
        let meets = [Fate::Fine, Fate::ListLate, Fate::ListEmpty, Fate::Crash];
        // Steps without faults follow each fault, because two wrong lists in a row would confirm absence.
        for fate in fates.iter().filter(|f| meets.contains(f)) {
            world.step(*fate);
            (0..5).for_each(|_| world.step(Fate::Fine));
            prop_assert!(world.is_settled() && world.case.0.has_made("web"), "{fate:?}");
        }
        world.case = world.case.clone().deleted();
        for fate in fates.iter().filter(|f| meets.contains(f)) {
            if world.case.decide().effect == Some(TagEffect::RemoveFinalizer) {
                break;
            }
            world.step(*fate);
            (0..5).for_each(|_| world.step(Fate::Fine));
        }
        world.end();
        prop_assert!(world.tags.is_empty(), "{:?}", world.tags);
    }

    #[test]
    fn tags_of_others_remain(fates in fates()) {
        let mut world = World::new();
        world.step(Fate::MadeByOthers);
        for fate in fates.iter().filter(|f| !matches!(f, Fate::AllDeleted | Fate::Edit)) {
            world.step(*fate);
        }
        world.end();
        prop_assert!(world.tags.contains_key("web"), "{:?}", world.tags);
    }
}
