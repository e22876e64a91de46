//! An order, stage by stage, as the machine of [`flexmetal_core::once`] asks for it.

use super::{
    outside::{announce, create},
    pass::Variant,
    real,
    step::{Answer, Hand},
    world::*,
};
use flexmetal_core::{
    account_facts::LiveAccount,
    once::{self, Closed, Reply, Stage},
    server::{
        answers,
        decide::{NewOrder, fence, intent},
    },
};
use hosting_types::OrderOutcome;

impl OpenAttempt {
    fn who(&self) -> Who {
        self.record.intent.who
    }
}

impl Hand<'_> {
    /// The attempt of another process, used as its own.
    pub fn stolen(&self, intent: IntentA) -> OpenAttempt {
        let record = RecordA {
            intent,
            outcome: None,
            settled: 0,
            failures: 0,
            acknowledged: false,
            token: 0,
        };
        OpenAttempt {
            record,
            status: StatusA::default(),
            since: self.world.now,
            connection: self.world.processes[self.process].connection,
            version: 0,
        }
    }

    /// Reads the object and decides once more.
    pub fn start(&mut self, planned: &NewOrder, object: &Obj) {
        // The account lets no order start while it refuses the key.
        let fresh = match self.world.mood {
            Mood::Denied => None,
            _ => self.get(object),
        };
        let Some(fresh) = fresh else {
            return self.failed();
        };
        let mut facts = self.facts(&fresh);
        facts.set_live(LiveAccount {
            terms: flexmetal_core::account::terms::Terms::Own,
            uid: real::ACCOUNT_UID.into(),
            lineage: self.world.account.lineage.map(real::lineage),
            defaults: real::defaults(&fresh),
            limits: api::limits::Limits::default(),
            stopped: None,
        });
        let slot = self.slot;
        self.me().memory[slot] = real::keep(facts.memory.clone());
        let nonce = format!("a{}", self.world.attempts);
        let window = real::times().send_window;
        let Some(intent) = fence::start(&facts, planned, &nonce, window) else {
            return self.failed();
        };
        // The permit was given for the connection that the process has now.
        if planned.account.connection != real::word(self.me().connection) {
            return self.failed();
        }
        let account = self.me().connection.account();
        let is_unnamed = |(number, m): (usize, &Machine)| {
            let is_named = fresh.beside & (1 << number) != 0;
            m.is_kept_of(slot) && m.account == account && !is_named
        };
        if self.world.machines.iter().enumerate().any(is_unnamed) {
            self.world.broken = Some(Broken::Beside);
        }
        if fresh.expires > 0 && self.world.now >= fresh.expires {
            self.world.broken = Some(Broken::ExpiredOrder);
        }
        self.world.attempts += 1;
        let record = intent::open(&facts, &intent, planned);
        let begun = OpenAttempt {
            record: real::record_of(&record),
            status: real::status_of(&intent::status(&facts, &record)),
            since: self.world.now,
            connection: self.world.processes[self.process].connection,
            version: fresh.version,
        };
        self.go(Task::Attempt(Stage::default(), begun));
    }

    /// Does what the stage asks for, and goes to the next.
    pub fn attempt(&mut self, stage: Stage, mut begun: OpenAttempt, answer: Answer) {
        let reply = match stage {
            Stage::WriteMetadata => self.write_metadata(&mut begun, answer),
            Stage::WriteStatus => {
                let status = begun.status;
                let who = begun.who();
                self.write(&mut begun.version, who, answer, |o| o.status = Some(status))
            }
            Stage::ReadMetadata | Stage::ReadStatus => self.read_back(&mut begun, answer),
            Stage::Send => return self.send(begun, answer),
            Stage::Closed(closed) => return self.unsent(&begun, closed),
        };
        match self.after(stage, reply) {
            Stage::Closed(closed) => self.unsent(&begun, closed),
            next => {
                if !matches!(next, Stage::WriteMetadata | Stage::WriteStatus) {
                    begun.version = 0;
                }
                self.go(Task::Attempt(next, begun));
            }
        }
    }

    /// The stage that follows, as a broken operator would have it.
    fn after(&self, stage: Stage, reply: Reply) -> Stage {
        match (self.variant, stage.after(reply)) {
            (Variant::NoIntentInStatus, Stage::WriteStatus) => Stage::Send,
            (Variant::StatusNotConfirmed, Stage::ReadStatus) => Stage::Send,
            (_, next) => next,
        }
    }

    fn write_metadata(&mut self, begun: &mut OpenAttempt, answer: Answer) -> Reply {
        let intent = begun.record.intent;
        if answer == Answer::Later {
            self.world.wire.push(Wire::Intent {
                slot: intent.who.slot,
                version: begun.version,
                intent,
            });
        }
        let change = |o: &mut Obj| announce(o, intent);
        self.write(&mut begun.version, intent.who, answer, change)
    }

    fn read_back(&mut self, begun: &mut OpenAttempt, answer: Answer) -> Reply {
        if answer == Answer::LostBefore {
            return Reply::Unknown;
        }
        let found = self.world.objects[self.slot].filter(|o| o.who == begun.who());
        let found = found.and_then(|o| self.get(&o));
        if let Some(object) = &found {
            begun.version = object.version;
        }
        let object = found.map(|o| real::object(&o));
        intent::shown(object.as_ref(), &real::intent(&begun.record.intent))
    }

    fn unsent(&mut self, begun: &OpenAttempt, closed: Closed) {
        let now = real::wall(self.world.now);
        self.done(answers::of_unsent(
            real::record(&begun.record),
            closed,
            None,
            now,
        ));
    }

    fn send(&mut self, begun: OpenAttempt, answer: Answer) {
        let started = self.world.processes[self.process].started;
        let in_time = once::may_send(
            real::moment(begun.since, started),
            real::intent(&begun.record.intent).send_by,
            real::moment(self.world.now, started),
            real::times().send_window,
        );
        let is_same = self.me().connection == begun.connection
            && begun.record.intent.account.map(|(_, c)| c) == Some(begun.connection);
        let is_same = is_same || self.variant == Variant::OtherConnection;
        if !(in_time && is_same) && self.variant != Variant::NoSendBy {
            return self.unsent(&begun, Closed::NotSent);
        }
        if self.freezes {
            return self.go(Task::Frozen(begun));
        }
        self.post(&begun, answer);
    }

    /// The order goes out, and what comes back is noted.
    pub fn post(&mut self, begun: &OpenAttempt, answer: Answer) {
        let key = (begun.who(), begun.record.intent.epoch);
        if self.world.posts.contains(&key) {
            self.world.broken = Some(Broken::SecondPost);
        }
        let object = self.world.objects[self.slot].filter(|o| o.who == begun.who());
        if object.is_some_and(|o| o.names.is_some()) {
            self.world.broken = Some(Broken::NamedOrder);
        }
        self.world.posts.push(key);
        self.world.posts.sort_unstable();
        let connection = match self.variant {
            Variant::OtherConnection => self.me().connection,
            _ => begun.connection,
        };
        let account = connection.account();
        let outcome = self.outcome(&begun.record.intent, account, answer);
        let outcome = self.broken_outcome(outcome, answer);
        let now = real::wall(self.world.now);
        self.done(answers::of_order(
            real::record(&begun.record),
            &outcome,
            now,
        ));
    }

    fn outcome(&mut self, intent: &IntentA, account: u8, answer: Answer) -> OrderOutcome {
        if self.world.mood == Mood::Denied {
            return OrderOutcome::Refused(real::denied());
        }
        if matches!(answer, Answer::Later | Answer::ErrorLater) {
            self.world.wire.push(Wire::Post {
                intent: *intent,
                account,
                sent: self.world.now,
            });
        }
        match answer {
            Answer::Refused => OrderOutcome::Refused(real::refused()),
            Answer::Later | Answer::LostBefore => OrderOutcome::Unknown(real::lost().explain()),
            Answer::ErrorLater | Answer::ErrorBefore => {
                OrderOutcome::Unknown(real::broke().explain())
            }
            Answer::Ok | Answer::LostAfter => {
                let number = create(self.world, intent, account);
                let made = self.world.machines[usize::from(number)];
                if self.me().connection.account() == account {
                    self.me().seen[usize::from(number)] = Some(made);
                }
                OrderOutcome::Created(Box::new(real::server(number, &made)))
            }
        }
    }

    /// What a broken client would make of the answer.
    fn broken_outcome(&self, outcome: OrderOutcome, answer: Answer) -> OrderOutcome {
        let is_error = matches!(answer, Answer::ErrorLater | Answer::ErrorBefore);
        match (self.variant, outcome) {
            (Variant::BlindRetry, OrderOutcome::Unknown(_)) => OrderOutcome::NotSent(real::lost()),
            (Variant::ServerErrorRefuses, OrderOutcome::Unknown(_)) if is_error => {
                OrderOutcome::Refused(real::broke())
            }
            (_, outcome) => outcome,
        }
    }
}
