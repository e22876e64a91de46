//! What a plan shows: the requests that change something at the provider, without any secret text.

use crate::{
    ages::shorten,
    commands::status::findings::find_state,
    objects::{Object, ObjectKind},
    output::{Column, Row, column},
};
use api::{
    acknowledgement::PendingAcknowledgement,
    command::PowerAction,
    conditions::{Type, found_true},
};
use flexmetal_core::wording::counted;
use hosting_types::Order;
use serde::Serialize;

/// A request that the operator would send.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEffect {
    /// What it does, such as `order` or `addTag`. The names are stable.
    pub act: &'static str,
    /// In words.
    pub description: String,
    /// Whether the provider bills for it.
    pub is_billed: bool,
    /// Whether it erases disks.
    pub erases_disks: bool,
    /// How long the operator waits first, in seconds, as long as nothing changes at the provider meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub after_seconds: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}

impl PlannedEffect {
    /// A request that is neither billed nor erases anything.
    pub fn new(act: &'static str, description: String) -> Self {
        Self {
            act,
            description,
            is_billed: false,
            erases_disks: false,
            after_seconds: 0,
        }
    }

    /// An order.
    pub fn order(order: &Order) -> Self {
        let contract = order.contract_id.as_ref();
        let contract = contract.map_or(String::new(), |it| format!(", contract {it}"));
        let text = format!(
            "Order 1 {} at {} with {}{contract} (billed)",
            order.instance_type, order.location, order.os.slug
        );
        Self {
            is_billed: true,
            ..Self::new("order", text)
        }
    }

    /// A change of one tag of a server.
    pub fn change_tag(uuid: &str, tag: &str, adds: bool) -> Self {
        match adds {
            true => Self::new("addTag", format!("Add tag {tag} to server {uuid}")),
            false => Self::new("removeTag", format!("Remove tag {tag} from server {uuid}")),
        }
    }

    /// A request that erases the disks of a server.
    pub fn erase(act: &'static str, description: String) -> Self {
        Self {
            erases_disks: true,
            ..Self::new(act, description)
        }
    }

    /// A power command. `by`: the ServerCommand that sends it.
    pub fn switch_power(target: &str, action: PowerAction, by: &str) -> Self {
        let text = format!("Send {action:?} to {target} by ServerCommand {by}");
        Self::new("power", text)
    }
}

/// What applying a manifest does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ApplyResult {
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

impl ApplyResult {
    fn as_str(self) -> &'static str {
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
    pub apply: ApplyResult,
    /// What the operator would send, in order.
    pub effects: Vec<PlannedEffect>,
    /// Whether more may follow that this plan does not show: a deletion that waits, or what an account lets others do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_continue: bool,
    /// Why nothing or nothing more is sent; empty if the object is as declared.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What waits for an acknowledgement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_acknowledgements: Vec<PendingAcknowledgement>,
}

impl ObjectPlan {
    /// Nothing is known yet.
    pub fn new(kind: String, name: &str, apply: ApplyResult) -> Self {
        Self {
            kind,
            namespace: None,
            name: name.to_owned(),
            apply,
            effects: Vec::new(),
            may_continue: false,
            why: String::new(),
            pending_acknowledgements: Vec::new(),
        }
    }

    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// Takes over what the object waits for, and its pending acknowledgements.
    pub fn describe_state(&mut self, object: &Object) {
        self.pending_acknowledgements = object.acknowledgements().0.to_vec();
        // What is sent last is not in the conditions yet: they are of before it.
        if !self.effects.is_empty() {
            return;
        }
        if let Some(suspended) = found_true(object.conditions(), Type::Suspended) {
            self.why = format!("{}: {}", suspended.reason, suspended.message);
        } else if let Some(finding) = find_state(object) {
            self.why = finding.text();
        }
    }

    /// The rows of its table: one for each effect, or one that says why there is none.
    pub fn rows(&self) -> Vec<PlanRow> {
        let kind = self.kind.to_ascii_lowercase();
        let row = |sends: &str, why: String| PlanRow {
            object: self.title(),
            name: match ObjectKind::parse(&self.kind) {
                Some(kind) => kind.resource_name(&self.name),
                None => format!("{kind}/{}", self.name),
            },
            apply: self.apply.as_str(),
            sends: sends.to_owned(),
            why,
        };
        if self.effects.is_empty() {
            return vec![row("", self.why.clone())];
        }
        let rows = self.effects.iter().map(|effect| {
            let after = i64::try_from(effect.after_seconds).unwrap_or(i64::MAX);
            let why = match after {
                0 => String::new(),
                _ => format!("After {}, if nothing changes until then", shorten(after)),
            };
            row(&effect.description, why)
        });
        rows.collect()
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
pub fn summarize(plans: &[ObjectPlan]) -> String {
    let effects = || plans.iter().flat_map(|plan| &plan.effects);
    let refused = plans.iter().filter(|it| it.apply == ApplyResult::Refused);
    let continuing = plans.iter().filter(|it| it.may_continue);
    let pending = plans.iter().flat_map(|it| &it.pending_acknowledgements);
    let first = match effects().count() {
        0 => "Nothing would be sent to the provider".to_owned(),
        requests => {
            let requests = counted(requests, "request");
            format!("{requests} would be sent to the provider")
        }
    };
    let rest = [
        (
            effects().filter(|it| it.is_billed).count(),
            "order",
            "billed",
        ),
        (
            effects().filter(|it| it.erases_disks).count(),
            "server",
            "erased",
        ),
        (refused.count(), "manifest", "refused by the API server"),
        (pending.count(), "acknowledgement", "pending"),
        (
            continuing.count(),
            "object",
            "with more that this plan does not show",
        ),
    ];
    let rest = rest.into_iter().filter(|(count, ..)| *count > 0);
    let rest = rest.map(|(count, noun, what)| format!("{} {what}", counted(count, noun)));
    let parts: Vec<String> = std::iter::once(first).chain(rest).collect();
    parts.join("; ")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::objects::decode;

    /// A plan of `BareMetalServer a/web` without effects.
    pub fn plan(apply: ApplyResult) -> ObjectPlan {
        ObjectPlan {
            namespace: Some("a".into()),
            why: "NoStock: No stock".into(),
            ..ObjectPlan::new("BareMetalServer".into(), "web", apply)
        }
    }

    /// A release of a server.
    pub fn release() -> PlannedEffect {
        PlannedEffect::erase("release", "Release server u1".into())
    }

    #[test]
    fn each_effect_has_a_row() {
        let mut plan = plan(ApplyResult::Configured);
        let cells = |plan: &ObjectPlan| -> Vec<Vec<String>> {
            plan.rows().iter().map(Row::cells).collect()
        };
        let title = "BareMetalServer a/web";
        assert_eq!(
            cells(&plan),
            [[title, "configured", "", "NoStock: No stock"]]
        );
        let late = PlannedEffect {
            after_seconds: 60,
            ..release()
        };
        plan.effects = vec![PlannedEffect::change_tag("u1", "blue", true), late];
        let rows = cells(&plan);
        assert_eq!(rows[0][2..], ["Add tag blue to server u1", ""]);
        assert!(rows[1][3].starts_with("After 60s,"), "{rows:?}");
    }

    #[test]
    fn sending_object_is_not_called_suspended() {
        let suspended = serde_json::json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "a"}, "spec": {"suspend": false},
            "status": {"conditions": [{
                "type": "Suspended", "status": "True", "reason": "Suspended", "message": "words",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }]},
        });
        let object = decode(ObjectKind::BareMetalServer, suspended).unwrap();
        let why = |effects: Vec<PlannedEffect>| {
            let plan = ObjectPlan::new("BareMetalServer".into(), "web", ApplyResult::Configured);
            let mut plan = ObjectPlan { effects, ..plan };
            plan.describe_state(&object);
            plan.why
        };
        assert_eq!(why(Vec::new()), "Suspended: words");
        assert_eq!(why(vec![release()]), "");
    }

    #[test]
    fn summary_counts_cost_and_loss() {
        assert_eq!(
            summarize(&[plan(ApplyResult::Unchanged)]),
            "Nothing would be sent to the provider"
        );
        let mut one = plan(ApplyResult::Created);
        one.effects = vec![release()];
        let text = summarize(&[one, plan(ApplyResult::Refused)]);
        assert_eq!(
            text,
            "1 request would be sent to the provider; 1 server erased; 1 manifest refused by the API server"
        );
    }
}
