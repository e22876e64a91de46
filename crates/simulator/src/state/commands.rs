//! Commands to a machine (section 4.5), its re-installation, and what both do
//! to power, hardware listing and root password.
//!
//! How a command ends is decided when it is sent; the present moment shows its
//! progress. Nothing has to be carried out later.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::super::answer::Refusal;
use super::super::catalogue::{Catalogue, Family};
use super::super::clock::Moment;
use super::super::profile::{
    CommandBusy, CommandKeys, CommandOrder, CommandUndelivered, ReinstallBusy,
    ReinstallUndelivered, Switches, UpdatePayload,
};
use super::super::rules::Reinstall;
use super::machine::Machine;
use super::status::Status;
use super::{Account, Settings};

/// How long a root password can be read (section 2.11).
const PASSWORD_FOR: Duration = Duration::from_hours(24);
/// From delivery to the first hardware listing (our choice).
const LISTING_AFTER: Duration = Duration::from_mins(1);

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommandKind {
    #[serde(rename = "reboot")]
    Reboot,
    #[serde(rename = "power_on")]
    PowerOn,
    #[serde(rename = "power_off")]
    PowerOff,
    #[serde(rename = "shutdown")]
    Shutdown,
    /// A re-installation; nobody can send it as a command.
    #[serde(rename = "update-server")]
    Update,
}

impl CommandKind {
    const WORDS: [(&'static str, Self); 5] = [
        ("reboot", Self::Reboot),
        ("power_on", Self::PowerOn),
        ("power_off", Self::PowerOff),
        ("shutdown", Self::Shutdown),
        ("update-server", Self::Update),
    ];

    /// The kind that a request body names.
    pub(crate) fn sent(word: &str) -> Option<Self> {
        let named = Self::WORDS.iter().find(|(known, _)| *known == word);
        named
            .map(|(_, kind)| *kind)
            .filter(|kind| *kind != Self::Update)
    }

    fn word(self) -> &'static str {
        let named = Self::WORDS.iter().find(|(_, kind)| *kind == self);
        named.map_or("", |(word, _)| word)
    }

    /// The power state when it is done: on or off.
    pub(super) fn leaves_on(self) -> bool {
        matches!(self, Self::Reboot | Self::PowerOn | Self::Update)
    }
}

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Pending,
    Finished,
    Failed,
}

/// A command, which cannot be withdrawn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    uuid: Uuid,
    pub(super) kind: CommandKind,
    at: Moment,
    pub(super) ends: Moment,
    fails: bool,
    /// The system that an installation installs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slug: Option<String>,
}

impl Machine {
    /// Releasing a machine ends its commands.
    fn progress(&self, command: &Command, now: Moment) -> (Progress, Moment) {
        let given_back = self.entered(Status::Releasing, now);
        if let Some(at) = given_back.filter(|at| *at < command.ends) {
            return (Progress::Failed, at);
        }
        match command.fails {
            _ if command.ends > now => (Progress::Pending, command.at),
            true => (Progress::Failed, command.ends),
            false => (Progress::Finished, command.ends),
        }
    }

    /// The commands that have succeeded.
    pub(super) fn finished(&self, now: Moment) -> impl Iterator<Item = &Command> {
        self.commands
            .iter()
            .filter(move |command| self.progress(command, now).0 == Progress::Finished)
    }

    fn busy(&self, now: Moment, kind: Option<CommandKind>) -> bool {
        self.commands.iter().any(|command| {
            self.progress(command, now).0 == Progress::Pending
                && kind.is_none_or(|kind| kind == command.kind)
        })
    }

    /// The record of section 2.12.
    fn command_record(&self, command: &Command, now: Moment, switches: &Switches) -> Value {
        let (progress, updated) = self.progress(command, now);
        let state = match progress {
            Progress::Pending => "pending",
            Progress::Finished => "finished",
            Progress::Failed => "failed",
        };
        let payload = match (command.kind, switches.update_payload) {
            (CommandKind::Update, UpdatePayload::EmptyArray) => json!([]),
            (CommandKind::Update, UpdatePayload::Null) => Value::Null,
            (kind, _) => json!({"command": kind.word()}),
        };
        let (server, created, changed) = match switches.command_keys {
            CommandKeys::Camel => ("serverUuid", "createdAt", "updatedAt"),
            CommandKeys::Snake => ("server_uuid", "created_at", "updated_at"),
        };
        json!({
            "uuid": command.uuid.to_string(),
            server: self.uuid.to_string(),
            "payload": payload,
            "state": state,
            created: command.at.iso(),
            changed: updated.iso(),
        })
    }

    /// The record of section 2.10.
    pub(crate) fn lshw(&self, now: Moment, catalogue: &Catalogue) -> Value {
        let listed = self.entered(Status::Delivered, now);
        let listed = listed
            .map(|delivered| delivered.after(LISTING_AFTER))
            .filter(|at| *at <= now);
        let kind = catalogue.kind(self.offer.instance_type);
        match listed.zip(kind) {
            Some((at, kind)) => json!({"createdAt": at.unix(), "lshw": kind.lshw(&self.name)}),
            None => json!({"createdAt": 0, "lshw": null}),
        }
    }

    /// The record of section 2.11, for a day after an installation of Windows.
    pub(crate) fn root_password(&self, now: Moment, catalogue: &Catalogue) -> Option<Value> {
        if self.status_at(now) != Status::Delivered {
            return None;
        }
        let delivered = self.entered(Status::Delivered, now)?;
        let installs = self
            .finished(now)
            .filter_map(|command| Some((command.ends, command.slug.as_deref()?)));
        let all = [(delivered, self.first_slug.as_str())];
        let (number, (at, slug)) = all
            .into_iter()
            .chain(installs)
            .enumerate()
            .max_by_key(|(_, (at, _))| *at)?;
        let windows = catalogue
            .system(slug)
            .is_some_and(|system| system.family == Family::Windows);
        if !windows || now >= at.after(PASSWORD_FOR) {
            return None;
        }
        // Derived from known data, so that nothing secret has to be stored.
        let hash = Sha256::digest(format!("{} {number}", self.uuid));
        let text: String = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(json!({"rootPassword": format!("W!{text}")}))
    }
}

impl Account {
    /// Sends a command. With `doom` it will fail.
    ///
    /// # Errors
    /// 404, and 409 or 422 where state and switches refuse it.
    #[expect(clippy::too_many_arguments, reason = "what decides about one command")]
    pub(crate) fn command(
        &mut self,
        uuid: &str,
        kind: CommandKind,
        now: Moment,
        settings: &Settings,
        switches: &Switches,
        rng: &mut StdRng,
        doom: bool,
    ) -> Result<Uuid, Refusal> {
        let machine = self.find(uuid, now)?;
        let accepts = switches.command_undelivered == CommandUndelivered::Accept;
        if machine.status() != Status::Delivered && !accepts {
            return Err(Refusal::unprocessable("Server is not delivered"));
        }
        if switches.command_busy == CommandBusy::Refuse409 && machine.busy(now, None) {
            return Err(Refusal::conflict("A command is pending"));
        }
        let installing = machine.busy(now, Some(CommandKind::Update));
        if installing && switches.reinstall_busy == ReinstallBusy::Refuse409 {
            return Err(Refusal::conflict("Server is being installed"));
        }
        self.begin(uuid, kind, now, (settings, settings.command), rng, doom)
    }

    fn begin(
        &mut self,
        uuid: &str,
        kind: CommandKind,
        now: Moment,
        (settings, lasting): (&Settings, Duration),
        rng: &mut StdRng,
        doom: bool,
    ) -> Result<Uuid, Refusal> {
        let index = self.index(uuid)?;
        let command = Command {
            uuid: Self::uuid(now, rng),
            kind,
            at: now,
            ends: now.after(lasting),
            fails: rng.random::<f64>() < settings.command_failure_rate || doom,
            slug: None,
        };
        let (named, machine) = (command.uuid, self.machines.get_mut(index));
        machine
            .ok_or_else(Refusal::not_found)?
            .commands
            .push(command);
        self.touched.insert(index);
        Ok(named)
    }

    /// Starts a re-installation. With `doom` it will fail.
    ///
    /// # Errors
    /// 404, and 409 or 422 where state and switches refuse it.
    #[expect(clippy::too_many_arguments, reason = "what decides about one command")]
    pub(crate) fn reinstall(
        &mut self,
        uuid: &str,
        wanted: Reinstall,
        now: Moment,
        settings: &Settings,
        switches: &Switches,
        rng: &mut StdRng,
        doom: bool,
    ) -> Result<Uuid, Refusal> {
        let machine = self.find(uuid, now)?;
        if machine.status() != Status::Delivered {
            let message = "Server is not delivered";
            return Err(match switches.reinstall_undelivered {
                ReinstallUndelivered::Refuse422 => Refusal::unprocessable(message),
                ReinstallUndelivered::Refuse409 => Refusal::conflict(message),
            });
        }
        let busy = machine.busy(now, Some(CommandKind::Update));
        if busy && switches.reinstall_busy == ReinstallBusy::Refuse409 {
            return Err(Refusal::conflict("Server is being installed"));
        }
        let lasting = (settings, settings.install);
        let named = self.begin(uuid, CommandKind::Update, now, lasting, rng, doom)?;
        let index = self.index(uuid)?;
        if let Some(machine) = self.machines.get_mut(index) {
            if let Some(name) = wanted.name {
                machine.name = name;
            }
            if let Some(slug) = wanted.slug {
                machine.slug = slug;
            }
            if let Some(command) = machine.commands.last_mut() {
                command.slug = Some(machine.slug.clone());
            }
        }
        Ok(named)
    }

    /// The records of a machine's commands, only those of a `kind` if given:
    /// from `start` on, `results` at most.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn commands(
        &self,
        uuid: &str,
        kind: Option<&str>,
        (start, results): (usize, usize),
        now: Moment,
        switches: &Switches,
    ) -> Result<Vec<Value>, Refusal> {
        let machine = self.find(uuid, now)?;
        let matching = |command: &&Command| {
            command.at <= now && kind.is_none_or(|kind| command.kind.word() == kind)
        };
        let record = |command: &Command| machine.command_record(command, now, switches);
        let all = machine.commands.iter();
        Ok(match switches.command_order {
            CommandOrder::NewestFirst => {
                let found = all.rev().filter(matching).skip(start);
                found.take(results).map(record).collect()
            }
            CommandOrder::OldestFirst => {
                let found = all.filter(matching).skip(start);
                found.take(results).map(record).collect()
            }
        })
    }

    /// One command's record.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn command_record(
        &self,
        uuid: &str,
        command: &str,
        now: Moment,
        switches: &Switches,
    ) -> Result<Value, Refusal> {
        let machine = self.find(uuid, now)?;
        let wanted: Uuid = command.parse().map_err(|_| Refusal::not_found())?;
        let mut commands = machine.commands.iter();
        commands
            .find(|command| command.uuid == wanted && command.at <= now)
            .map(|command| machine.command_record(command, now, switches))
            .ok_or_else(Refusal::not_found)
    }
}
