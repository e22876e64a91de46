//! Orders: first wrong ones, for an instance type that does not exist, so that the API must refuse them. Then one that
//! is right but for its contract, and the right one if the API refuses that.

use hosting_types::refusal::is_certain;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::raw_client::{RawAnswer, uuid};
use super::{Drill, DrillError};
use crate::explain_error;

/// A name that no location and no instance type has.
const NONEXISTENT_NAME: &str = "conformance-none";

impl Drill {
    /// Sends wrong orders, and reads which fields the answers name. That an answer does not name a field counts only if
    /// the first answer names both location and instance type.
    pub(super) async fn probe_orders(&mut self) -> Result<(), DrillError> {
        let slug = self.choice.slug.clone();
        let partition = json!({"target": "/", "filesystem": "conformance", "size": -1});
        let os = json!({
            "slug": slug, "partitions": [partition], "ipxeScriptUrl": "https://example.com/",
        });
        let answer = self.send_wrong_order(&json!({"os": os})).await?;
        let names_all = answer.names("location") && answer.names("instanceType");
        let fields = [
            ("missingSshKey", "sshKey", "refuse422", "accept"),
            ("ipxeScriptUrl", "ipxeScriptUrl", "enforce", "ignore"),
            ("fileSystems", "partitions", "enforce", "any"),
        ];
        for (switch, field, refused, accepted) in fields {
            self.record_field(switch, (&answer, names_all), field, [refused, accepted]);
        }

        let order = json!({"os": {"slug": slug}, "sshKey": ["conformance"]});
        let answer = self.send_wrong_order(&order).await?;
        self.record_field(
            "publicKeys",
            (&answer, names_all),
            "sshKey",
            ["openssh", "any"],
        );
        match self.choice.hub_slug.clone() {
            None => self.record("siderolinkApi", None, "no such system is offered"),
            Some(hub) => {
                let order = json!({"os": {"slug": hub}, "sshKey": []});
                let answer = self.send_wrong_order(&order).await?;
                let values = ["required", "optional"];
                self.record_field(
                    "siderolinkApi",
                    (&answer, names_all),
                    "kernelParams",
                    values,
                );
            }
        }

        // The location may be valid, so 61 tags are a second reason to refuse the order.
        let order = json!({
            "os": {"slug": slug}, "sshKey": [], "tags": vec![self.run_name.clone(); 61],
            "location": other_case(&self.choice.location),
        });
        let answer = self.send_wrong_order(&order).await?;
        let values = ["exact", "caseless"];
        self.record_field("catalogueNames", (&answer, names_all), "location", values);
        Ok(())
    }

    /// Sends an order for an instance type that does not exist, at a location that does not exist unless `fields` has
    /// one. Fails if the API accepts it.
    async fn send_wrong_order(&mut self, fields: &Value) -> Result<RawAnswer, DrillError> {
        let mut order = json!({
            "name": self.run_name, "location": NONEXISTENT_NAME, "instanceType": NONEXISTENT_NAME,
            "tags": [self.run_name],
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            order[field] = value.clone();
        }
        let answer = self.send_order(order).await?;
        match answer.is_success() {
            true => Err(DrillError::WrongOrderAccepted),
            false => Ok(answer),
        }
    }

    fn record_field(
        &mut self,
        switch: &'static str,
        (answer, names_all): (&RawAnswer, bool),
        field: &str,
        [refused, accepted]: [&'static str; 2],
    ) {
        let value = match answer.names(field) {
            true => Some(refused),
            false if names_all => Some(accepted),
            false => None,
        };
        let details = format!(
            "answered {} to an order with several faults",
            answer.describe()
        );
        self.record(switch, value, details);
    }

    /// Orders the server. The first order names a contract that does not exist; only if it is refused, a second one
    /// without a contract follows.
    pub(super) async fn order(&mut self) -> Result<(), DrillError> {
        let mut order = json!({
            "name": self.run_name, "location": self.choice.location, "instanceType": self.choice.instance_type,
            "os": {"slug": self.choice.slug}, "sshKey": [self.key()], "tags": [self.run_name],
        });
        let last = order.clone();
        order["contractId"] = json!(self.run_name.to_ascii_uppercase());
        self.raw
            .print_progress(&format!("ordering {}", self.choice));
        let answer = self.send_order(order).await?;
        if answer.is_success() {
            let details = "an order on a contract that does not exist was accepted";
            self.record("unknownContract", Some("onDemand"), details);
            return Ok(());
        }
        self.record_status("unknownContract", &answer, &[(422, "refuse422")]);
        let answer = self.send_order(last).await?;
        match answer.is_success() {
            true => Ok(()),
            false => Err(DrillError::Refused(format!(
                "the order: {}",
                answer.describe()
            ))),
        }
    }

    /// Sends an order. Until its UUID or a certain refusal arrives, a server of unknown UUID may exist.
    async fn send_order(&mut self, order: Value) -> Result<RawAnswer, DrillError> {
        let begun = Instant::now();
        self.has_ordered = true;
        self.is_outcome_unknown = true;
        let answer = match self.change(Method::POST, &["servers"], Some(order)).await {
            Ok(answer) => answer,
            // It was not sent, or it was answered 429 and is not repeated.
            Err(error @ DrillError::Interrupted(_)) => {
                self.is_outcome_unknown = false;
                return Err(error);
            }
            Err(error) => return Err(DrillError::UnknownOrder(explain_error(&error))),
        };
        if !is_certain(answer.status) {
            let ordered = uuid(answer.record()).filter(|_| answer.is_success());
            let Some(ordered) = ordered else {
                let why = format!("answered {} without a UUID", answer.describe());
                return Err(DrillError::UnknownOrder(why));
            };
            self.time("Answer to the order", begun);
            self.raw
                .print_progress(&format!("ordered server {ordered}"));
            self.server = Some(ordered);
        }
        self.is_outcome_unknown = false;
        Ok(answer)
    }
}

/// The same name in other letters.
fn other_case(name: &str) -> String {
    match name.to_lowercase() {
        lower if lower != name => lower,
        _ => name.to_uppercase(),
    }
}
