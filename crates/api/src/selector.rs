//! Which namespaces a cluster account serves by their labels.

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Labels of a namespace.
pub type Labels = BTreeMap<String, String>;

/// Requirements on the labels of a namespace, all of which it has to meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)").message("namespaceSelector must have a requirement; set matchLabels or matchExpressions, or namespaces: [\"*\"] for every namespace"))]
pub struct NamespaceSelector {
    /// Labels that the namespace must have, at most 3. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    #[schemars(extend("maxProperties" = 3))]
    #[x_kube(validation = Rule::new("self.all(key, key.size() <= 63 && self[key].size() <= 63)").message("keys and values of matchLabels may not have more than 63 characters"))]
    pub match_labels: Labels,
    /// Further requirements, at most 2. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.operator) || (self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)").message("values must be set for the operators In and NotIn, and for no others"))]
pub struct LabelRequirement {
    /// Key of the label. Required. Mutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")
    )]
    pub key: String,
    /// Operator: `In`, `NotIn`, `Exists` or `DoesNotExist`. Required. Mutable.
    pub operator: LabelOperator,
    /// Values for `In` and `NotIn`, at most 4. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(max = 63), regex(pattern = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")), extend("x-kubernetes-list-type" = "set"))]
    pub values: Vec<String>,
}

/// What is required of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl NamespaceSelector {
    /// Whether a namespace with these labels meets all requirements. Without requirements no namespace does: an empty
    /// selector by mistake must not open the account to all.
    pub fn matches(&self, labels: &Labels) -> bool {
        let is_empty = self.match_labels.is_empty() && self.match_expressions.is_empty();
        let mut pairs = self.match_labels.iter();
        let mut requirements = self.match_expressions.iter();
        !is_empty
            && pairs.all(|(key, value)| labels.get(key) == Some(value))
            && requirements.all(|requirement| requirement.is_met_by(labels))
    }
}

impl LabelRequirement {
    fn is_met_by(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let is_listed = || value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            LabelOperator::In => is_listed(),
            LabelOperator::NotIn => !is_listed(),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn all_requirements_have_to_be_met() {
        let labels: Labels = [("team", "a"), ("paid", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let matches = |selector: Value| {
            let selector: NamespaceSelector = serde_json::from_value(selector).unwrap();
            selector.matches(&labels)
        };
        for (selector, expected) in [
            (json!({}), false),
            (json!({"matchLabels": {}, "matchExpressions": []}), false),
            (json!({"matchLabels": {"team": "a"}}), true),
            (json!({"matchLabels": {"team": "a", "paid": "no"}}), false),
            (json!({"matchLabels": {"other": "a"}}), false),
            (expression("team", "In", &["b", "a"]), true),
            (expression("team", "In", &["b"]), false),
            (expression("other", "In", &["a"]), false),
            (expression("team", "NotIn", &["a"]), false),
            (expression("other", "NotIn", &["a"]), true),
            (expression("paid", "Exists", &[]), true),
            (expression("other", "Exists", &[]), false),
            (expression("paid", "DoesNotExist", &[]), false),
            (expression("other", "DoesNotExist", &[]), true),
            (
                json!({
                    "matchLabels": {"team": "a"},
                    "matchExpressions": [{"key": "paid", "operator": "DoesNotExist"}],
                }),
                false,
            ),
        ] {
            assert_eq!(matches(selector.clone()), expected, "{selector}");
        }
    }
}
