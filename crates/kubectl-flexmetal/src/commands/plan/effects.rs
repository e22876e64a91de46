//! What a plan shows: the requests that change something at the provider, without any secret text.

use crate::{
    ages::shorten,
    objects::ObjectKind,
    output::{Column, Row, column},
};
use api::{acknowledgement::PendingAcknowledgement, command::PowerAction};
use flexmetal_core::{
    server::decide::{NewOrder, NewReinstall},
    whitelist::decide::lockout_guard::WhitelistStep,
    wording::counted,
};
use serde::Serialize;

/// What a request does. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Orders a server.
    Order,
    /// Adds a tag to a server.
    AddTag,
    /// Removes a tag from a server.
    RemoveTag,
    /// Releases a server.
    Release,
    /// Re-installs a server.
    Reinstall,
    /// Installs a dedicated host.
    InstallHost,
    /// Switches a server or host by a power command.
    Power,
    /// Reads the root password of a server, once.
    FetchRootPassword,
    /// Creates a tag of the account.
    CreateTag,
    /// Renames a tag of the account.
    RenameTag,
    /// Deletes a tag of the account.
    DeleteTag,
    /// Stores a public key.
    StoreKey,
    /// Deletes a stored key.
    DeleteKey,
    /// Adds an entry to a whitelist.
    AddEntry,
    /// Changes an entry of a whitelist.
    ChangeEntry,
    /// Removes an entry from a whitelist.
    RemoveEntry,
}

/// A request that the operator would send.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEffect {
    /// What it does.
    pub act: Act,
    /// What it is about: UUID of the server or key, number of the host or entry, or name of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// In words.
    pub description: String,
    /// Whether the provider bills for it.
    pub is_billed: bool,
    /// Whether it erases disks.
    pub erases_disks: bool,
    /// How long the operator waits first, in seconds, as long as nothing changes at the provider meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub after_seconds: u64,
    /// The reason of that wait, if the object reports one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<PlannedOrder>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}

/// What an order asks for, without keys and texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedOrder {
    /// Host name.
    pub hostname: String,
    /// Location.
    pub location: String,
    /// Instance type.
    pub instance_type: String,
    /// Slug of the operating system.
    pub os: String,
    /// Contract that pays.
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    pub contract_id: Option<String>,
    /// Whether the on-demand pool pays once the contract is used up.
    pub overflow: bool,
    /// The tags of the spec.
    pub tags: Vec<String>,
    /// Number of SSH keys.
    pub ssh_keys: usize,
    /// Whether a script runs at the first boot.
    pub has_post_install_script: bool,
    /// Whether it has user data.
    pub has_user_data: bool,
}

impl PlannedEffect {
    /// A request that is neither billed nor erases anything.
    pub fn new(act: Act, target: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            act,
            target: Some(target.into()),
            description: description.into(),
            is_billed: false,
            erases_disks: false,
            after_seconds: 0,
            waits_for: None,
            order: None,
        }
    }

    /// An order.
    pub fn of_order(new: &NewOrder) -> Self {
        let order = &new.order;
        let planned = PlannedOrder {
            hostname: order.name.clone(),
            location: order.location.clone(),
            instance_type: order.instance_type.clone(),
            os: order.os.slug.clone(),
            contract_id: order.contract_id.clone(),
            overflow: order.overflow,
            tags: order.tags.clone(),
            ssh_keys: order.ssh_keys.len(),
            has_post_install_script: order.post_install_script.is_some(),
            has_user_data: order.user_data.is_some(),
        };
        let contract = match &planned.contract_id {
            Some(contract) => format!(", contract {contract}"),
            None => String::new(),
        };
        let description = format!(
            "Order 1 {} at {} with {}{contract} (billed)",
            planned.instance_type, planned.location, planned.os
        );
        Self {
            act: Act::Order,
            target: None,
            description,
            is_billed: true,
            erases_disks: false,
            after_seconds: 0,
            waits_for: None,
            order: Some(planned),
        }
    }

    /// A change of one tag of a server.
    pub fn of_tag(uuid: &str, tag: &str, adds: bool) -> Self {
        match adds {
            true => Self::new(Act::AddTag, uuid, format!("Add tag {tag} to server {uuid}")),
            false => {
                let text = format!("Remove tag {tag} from server {uuid}");
                Self::new(Act::RemoveTag, uuid, text)
            }
        }
    }

    /// A release.
    pub fn of_release(uuid: &str) -> Self {
        let text = format!("Release server {uuid} (erases its disks, ends its billing)");
        Self {
            erases_disks: true,
            ..Self::new(Act::Release, uuid, text)
        }
    }

    /// A re-installation.
    pub fn of_reinstall(new: &NewReinstall) -> Self {
        let uuid = &new.server_uuid;
        let text = format!(
            "Re-install server {uuid} for revision {} (erases its disks)",
            new.revision
        );
        Self {
            erases_disks: true,
            ..Self::new(Act::Reinstall, uuid, text)
        }
    }

    /// The installation of a host.
    pub fn of_host_install(host: u64, revision: i64) -> Self {
        let text = format!("Install host {host} for revision {revision} (erases its disks)");
        Self {
            erases_disks: true,
            ..Self::new(Act::InstallHost, host.to_string(), text)
        }
    }

    /// A power command. `by`: the ServerCommand that sends it.
    pub fn of_power(target: &str, action: PowerAction, by: &str) -> Self {
        let text = format!("Send {action:?} to {target} by ServerCommand {by}");
        Self::new(Act::Power, target, text)
    }

    /// A change of a whitelist.
    pub fn of_whitelist_step(step: &WhitelistStep) -> Self {
        match step {
            WhitelistStep::Add(entry) => {
                let text = format!("Add entry {} with {}", entry.name, entry.range);
                Self::new(Act::AddEntry, &entry.name, text)
            }
            WhitelistStep::Change(id, entry) => {
                let text = format!("Change entry {id} to {} with {}", entry.name, entry.range);
                Self::new(Act::ChangeEntry, id.to_string(), text)
            }
            WhitelistStep::Remove(id) => {
                let text = format!("Remove entry {id}");
                Self::new(Act::RemoveEntry, id.to_string(), text)
            }
        }
    }
}

/// What applying a manifest does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Admission {
    /// It is created.
    Created,
    /// It is changed.
    Configured,
    /// Nothing changes.
    Unchanged,
    /// The API server refuses it.
    Refused,
    /// There is no manifest: the object as it is.
    NotApplied,
}

impl Admission {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::NotApplied => "",
        }
    }
}

/// The plan of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPlan {
    /// Kind of the object.
    pub kind: String,
    /// Its namespace; none if it is of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What applying does.
    pub apply: Admission,
    /// What the operator would send, in order.
    pub effects: Vec<PlannedEffect>,
    /// Reason of the state that it then has, or waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What waits for an acknowledgement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,
    /// What the plan assumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

impl ObjectPlan {
    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// As `kubectl get -o name` prints it.
    fn resource_name(&self) -> String {
        let kind = self.kind.to_ascii_lowercase();
        match ObjectKind::parse(&self.kind) {
            Some(_) => format!("{kind}.{}/{}", api::GROUP, self.name),
            None => format!("{kind}/{}", self.name),
        }
    }

    /// The rows of its table: one for each effect, or one that says why there is none.
    pub fn rows(&self) -> Vec<PlanRow> {
        let row = |sends: String, why: String| PlanRow {
            object: self.title(),
            name: self.resource_name(),
            apply: self.apply.as_str(),
            sends,
            why,
        };
        if self.effects.is_empty() {
            return vec![row(String::new(), self.explain())];
        }
        let rows = self.effects.iter().map(|effect| {
            let why = match effect.after_seconds {
                0 => String::new(),
                seconds => {
                    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                    let reason = effect.waits_for.as_ref();
                    let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
                    format!(
                        "After {}{reason}, if nothing changes until then",
                        shorten(seconds)
                    )
                }
            };
            row(effect.description.clone(), why)
        });
        rows.collect()
    }

    /// Why nothing is sent.
    fn explain(&self) -> String {
        match (&self.reason, &self.message) {
            (Some(reason), Some(message)) if !message.is_empty() => format!("{reason}: {message}"),
            (Some(reason), _) => reason.clone(),
            (None, Some(message)) => message.clone(),
            (None, None) => "Nothing to do".into(),
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct PlanRow {
    object: String,
    name: String,
    apply: &'static str,
    sends: String,
    why: String,
}

impl Row for PlanRow {
    const COLUMNS: &'static [Column] = &[
        column("OBJECT"),
        column("APPLY"),
        column("SENDS"),
        column("WHY"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.object.clone(),
            self.apply.to_owned(),
            self.sends.clone(),
            self.why.clone(),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The last line of a plan.
pub fn summarise(plans: &[ObjectPlan]) -> String {
    let effects = || plans.iter().flat_map(|plan| &plan.effects);
    let requests = effects().count();
    let refused = plans
        .iter()
        .filter(|plan| plan.apply == Admission::Refused)
        .count();
    let mut parts = match requests {
        0 => vec!["Nothing would be sent to the provider".to_owned()],
        _ => vec![format!(
            "{} would be sent to the provider",
            counted(requests, "request")
        )],
    };
    let billed = effects().filter(|effect| effect.is_billed).count();
    if billed > 0 {
        parts.push(format!("{} billed", counted(billed, "server")));
    }
    let erased = effects().filter(|effect| effect.erases_disks).count();
    if erased > 0 {
        parts.push(format!("disks of {} erased", counted(erased, "server")));
    }
    if refused > 0 {
        let manifests = counted(refused, "manifest");
        parts.push(format!("{manifests} refused by the API server"));
    }
    let pending: usize = plans
        .iter()
        .map(|plan| plan.pending_acknowledgements.len())
        .sum();
    if pending > 0 {
        let pending = counted(pending, "acknowledgement");
        parts.push(format!("{pending} pending"));
    }
    parts.join("; ")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A plan of `BareMetalServer a/web` without effects.
    pub fn plan(apply: Admission) -> ObjectPlan {
        ObjectPlan {
            kind: "BareMetalServer".into(),
            namespace: Some("a".into()),
            name: "web".into(),
            apply,
            effects: Vec::new(),
            reason: Some("NoStock".into()),
            message: Some("No stock".into()),
            pending_acknowledgements: Vec::new(),
            assumptions: Vec::new(),
        }
    }

    #[test]
    fn each_effect_has_a_row() {
        let mut plan = plan(Admission::Configured);
        let cells = |plan: &ObjectPlan| -> Vec<Vec<String>> {
            plan.rows().iter().map(Row::cells).collect()
        };
        assert_eq!(
            cells(&plan),
            [[
                "BareMetalServer a/web",
                "configured",
                "",
                "NoStock: No stock"
            ]]
        );
        plan.effects = vec![
            PlannedEffect::of_tag("u1", "blue", true),
            PlannedEffect {
                after_seconds: 60,
                waits_for: Some("Restarted".into()),
                ..PlannedEffect::of_release("u1")
            },
        ];
        let rows = cells(&plan);
        assert_eq!(rows[0][2..], ["Add tag blue to server u1", ""]);
        assert!(rows[1][3].starts_with("After 60s (Restarted),"), "{rows:?}");
    }

    #[test]
    fn effects_serialize_without_empty_fields() {
        let effect = PlannedEffect::of_tag("u1", "blue", false);
        let shown = serde_json::to_value(&effect).unwrap();
        assert_eq!(
            shown,
            json!({"act": "removeTag", "target": "u1", "isBilled": false, "erasesDisks": false,
                "description": "Remove tag blue from server u1"})
        );
    }

    #[test]
    fn summary_counts_cost_and_loss() {
        assert_eq!(
            summarise(&[plan(Admission::Unchanged)]),
            "Nothing would be sent to the provider"
        );
        let mut one = plan(Admission::Created);
        one.effects = vec![PlannedEffect::of_release("u1")];
        let text = summarise(&[one, plan(Admission::Refused)]);
        assert_eq!(
            text,
            "1 request would be sent to the provider; disks of 1 server erased; 1 manifest refused by the API server"
        );
    }
}
