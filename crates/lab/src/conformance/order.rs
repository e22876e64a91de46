//! Orders: several that break rules and name no location or type, so that none can be delivered, then the only one that
//! is meant to be accepted.

use hosting_types::server::SystemChoice;
use hosting_types::{Order, OrderResult};
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::wire::RawAnswer;
use super::{Drill, DrillError, Stop, print_progress};

/// What no location and no instance type is called.
const NOWHERE: &str = "conformance-none";

impl Drill {
    /// Sends orders that cannot be accepted, and reads which fields the answers name. That a field is not named counts
    /// only if the API names all wrong fields.
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

        let order = json!({
            "os": {"slug": slug}, "sshKey": [], "tags": vec![self.run.clone(); 61],
            "location": other_case(&self.choice.location),
        });
        let answer = self.send_wrong_order(&order).await?;
        let values = ["exact", "caseless"];
        self.record_field("catalogueNames", (&answer, names_all), "location", values);
        Ok(())
    }

    /// Sends an order for an instance type that does not exist, and without a location unless `fields` has one.
    async fn send_wrong_order(&mut self, fields: &Value) -> Result<RawAnswer, DrillError> {
        let mut order = json!({
            "name": self.run, "location": NOWHERE, "instanceType": NOWHERE, "tags": [self.run],
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            order[field] = value.clone();
        }
        // If it was accepted anyway, the clean-up finds the server.
        self.has_ordered = true;
        let answer = self.change(Method::POST, &["servers"], Some(order)).await?;
        match answer.is_success() {
            true => {
                self.is_outcome_unknown = true;
                let why = "an order for an unknown instance type was accepted";
                Err(DrillError::UnknownOrder(why.to_owned()))
            }
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
        let seen = format!(
            "answered {} to an order with several faults",
            answer.describe()
        );
        self.record(switch, value, seen);
    }

    /// Orders the server. The first order names a contract that does not exist; only if it is refused, a second one
    /// without a contract follows.
    pub(super) async fn order(&mut self, stop: &mut Stop) -> Result<(), DrillError> {
        let id = self.run.to_ascii_uppercase();
        let mut order = Order {
            name: self.run.clone(),
            location: self.choice.location.clone(),
            instance_type: self.choice.instance_type.clone(),
            os: SystemChoice::of_slug(&self.choice.slug),
            ssh_keys: vec![self.key().to_owned()],
            tags: vec![self.run.clone()],
            contract_id: Some(id),
            ..Order::default()
        };
        stop.check()?;
        print_progress("ordering the server");
        if let Some(status) = self.send_order(&order).await? {
            let value = (status == 422).then_some("refuse422");
            self.record("unknownContract", value, format!("answered {status}"));
            stop.check()?;
            order.contract_id = None;
            if let Some(status) = self.send_order(&order).await? {
                return Err(DrillError::Refused(format!("the order: {status}")));
            }
        } else {
            let seen = "an order on a contract that does not exist was accepted";
            self.record("unknownContract", Some("onDemand"), seen);
        }
        Ok(())
    }

    /// Sends an order. Some: the status of a certain refusal, so that no server exists.
    async fn send_order(&mut self, order: &Order) -> Result<Option<u16>, DrillError> {
        let begun = Instant::now();
        self.has_ordered = true;
        self.is_outcome_unknown = true;
        let result = self.client.order(order, &self.run).await;
        self.is_outcome_unknown = false;
        match result {
            OrderResult::Created(server) => {
                self.time("Answer to the order", begun);
                print_progress(&format!("ordered server {}", server.id));
                self.server = Some(server.id.as_str().to_owned());
                Ok(None)
            }
            OrderResult::Refused(error) => match error.status() {
                Some(status) => Ok(Some(status)),
                None => Err(DrillError::Call(error.explain())),
            },
            OrderResult::NotSent(error) => Err(DrillError::Call(error.explain())),
            OrderResult::Unknown(why) => {
                self.is_outcome_unknown = true;
                Err(DrillError::UnknownOrder(why))
            }
        }
    }
}

/// The same name in other letters.
fn other_case(name: &str) -> String {
    match name.to_lowercase() {
        lower if lower != name => lower,
        _ => name.to_uppercase(),
    }
}
