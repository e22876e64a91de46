//! What reads and harmless errors show.

use http::Method;
use serde_json::{Value, json};

use super::raw_client::{RawAnswer, RawCall};
use super::{Drill, DrillError};

pub(super) const SERVERS: [&str; 2] = ["flexMetal", "servers"];

impl Drill {
    /// Pages and filters of the list of servers.
    pub(super) async fn probe_lists(&mut self) -> Result<(), DrillError> {
        let run_name = self.run_name.clone();
        let narrow = [("status", "delivered"), ("tag", run_name.as_str())];
        let mut wrong = RawCall::get(&SERVERS);
        wrong.wrong_key = true;
        let answer = self.raw.send(wrong).await?;
        self.record_status(
            "wrongKey",
            &answer,
            &[(403, "answer403"), (401, "answer401")],
        );
        let long = RawCall::get(&SERVERS)
            .query(&narrow)
            .range("start=0,results=51");
        let answer = self.raw.send(long).await?;
        self.record_status(
            "resultsAbove50",
            &answer,
            &[(422, "refuse422"), (200, "clamp")],
        );
        let bad = RawCall::get(&SERVERS).query(&narrow).range("conformance");
        let answer = self.raw.send(bad).await?;
        self.record_status("badRange", &answer, &[(422, "refuse422"), (200, "ignore")]);
        let answer = self.raw.send(RawCall::get(&SERVERS)).await?;
        self.record_status(
            "listFilters",
            &answer,
            &[(422, "required"), (200, "optional")],
        );
        let unknown = [("status", "conformance"), ("tag", run_name.as_str())];
        let answer = self
            .raw
            .send(RawCall::get(&SERVERS).query(&unknown))
            .await?;
        let values = [(422, "refuse422"), (200, "matchRecord")];
        self.record_status("unknownStatusFilter", &answer, &values);
        Ok(())
    }

    /// Errors whose status and code the report lists.
    pub(super) async fn probe_errors(&mut self) -> Result<(), DrillError> {
        let none = uuid::Uuid::new_v4().to_string();
        for path in [
            &["flexMetal", "servers", &none][..],
            &["flexMetal", "tags", &self.tag("none")],
            &["sshKey", &none],
            &["flexMetal", "conformance"],
        ] {
            self.raw.send(RawCall::get(path)).await?;
        }
        let tags = ["flexMetal", "tags"];
        self.raw.send(RawCall::new(Method::PUT, &tags)).await?;
        // The first is no object, the second breaks the rule. If one makes a tag anyway, the clean-up finds it.
        for body in [
            json!(self.tag("bare")),
            json!({"tag": self.tag("not a tag")}),
        ] {
            self.change(Method::POST, &["tags"], Some(body)).await?;
        }
        Ok(())
    }

    /// Order of the list of servers, and what its records show, once the own server is in it.
    pub(super) async fn probe_delivered(&mut self) -> Result<(), DrillError> {
        let answer = self.read_server().await?;
        let (value, details) = match &answer.body {
            Value::Array(_) => (Some("array"), "one server came in an array"),
            Value::Object(_) => (Some("object"), "one server came bare"),
            _ => (None, "the answer has neither form"),
        };
        self.record("singleAnswer", value, details);
        let message = &answer.record()["statusMessage"];
        let value = match message {
            Value::String(text) if text.is_empty() => Some("empty"),
            Value::String(text) if text == "OK" => Some("ok"),
            Value::Null => Some("null"),
            _ => None,
        };
        let details = format!("statusMessage of the delivered server: {message}");
        self.record("idleMessage", value, details);
        let count = answer.record()["ipAddresses"]
            .as_array()
            .map_or(0, Vec::len);
        let value = match count {
            0 => Some("none"),
            1 => Some("one"),
            2 => Some("two"),
            _ => None,
        };
        self.record("addresses", value, format!("{count} addresses at delivery"));
        self.probe_list_order().await
    }

    async fn probe_list_order(&mut self) -> Result<(), DrillError> {
        let first = RawCall::get(&SERVERS).range("start=0,results=50");
        let mut answer = self.raw.send(first).await?;
        if !answer.is_success() {
            let delivered = [("status", "delivered"), ("tag", &*self.run_name)];
            let call = RawCall::get(&SERVERS).query(&delivered);
            answer = self.raw.send(call).await?;
        }
        let times: Vec<i64> = answer
            .records()
            .iter()
            .filter_map(|server| server["createdAt"].as_i64())
            .collect();
        let (value, details) = match (times.first(), times.last()) {
            (Some(first), Some(last)) if first < last && times.is_sorted() => {
                (Some("oldestFirst"), "the oldest server came first")
            }
            (Some(first), Some(last)) if first > last && times.is_sorted_by(|a, b| a >= b) => {
                (Some("newestFirst"), "the newest server came first")
            }
            (Some(first), Some(last)) if first == last => {
                (None, "the list shows no two servers of different age")
            }
            _ => (None, "the list has another order"),
        };
        self.record("listOrder", value, details);
        Ok(())
    }

    /// Usage of the own server, and the period of a report without dates.
    pub(super) async fn probe_usage(&mut self) -> Result<(), DrillError> {
        let path = ["flexMetal", "usage"];
        let usage = self.raw.send(RawCall::get(&path)).await?;
        let uuid = self.uuid();
        let is_own = |record: &&Value| record["server"]["uuid"] == uuid.as_str();
        match usage.records().iter().find(is_own) {
            Some(record) => {
                let (value, details) = match &record["endedAt"] {
                    Value::Null => (Some("null"), "endedAt of the running server is null"),
                    Value::String(_) => (Some("now"), "endedAt of the running server is a time"),
                    _ => (
                        None,
                        "endedAt of the running server is neither null nor a text",
                    ),
                };
                self.record("usageOpenEnd", value, details);
                let (value, details) = match record.get("bandwidthOut") {
                    Some(_) => ("show", "the record has bandwidthOut"),
                    None => ("omit", "the record has no bandwidthOut"),
                };
                self.record("bandwidthOut", Some(value), details);
            }
            None => {
                for switch in ["usageOpenEnd", "bandwidthOut"] {
                    self.record(switch, None, "the report does not show the server yet");
                }
            }
        }
        let today = jiff::Timestamp::now()
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date();
        let month = today.first_of_month().to_string();
        let has_older = |answer: &RawAnswer| {
            let mut begins = answer.records().iter().map(|it| it["startedAt"].as_str());
            begins.any(|begin| begin.is_some_and(|begin| begin < month.as_str()))
        };
        let today = today.to_string();
        let dates = [("startDate", "2015-01-01"), ("endDate", &*today)];
        let all = self.raw.send(RawCall::get(&path).query(&dates)).await?;
        let (value, details) = match (has_older(&usage), has_older(&all)) {
            (true, _) => (Some("all"), "usage of earlier months came without dates"),
            (false, true) => (
                Some("month"),
                "usage of earlier months came only with dates",
            ),
            (false, false) => (None, "the account has no usage of earlier months"),
        };
        self.record("usageDates", value, details);
        Ok(())
    }

    /// The list of hosts, which the drill only reads.
    pub(super) async fn probe_hosts(&mut self) -> Result<(), DrillError> {
        let path = ["host"];
        let call = RawCall::get(&path).range("start=0,results=1");
        let first = self.raw.send(call).await?;
        let rest = RawCall::get(&path).range("start=1,results=1");
        let rest = self.raw.send(rest).await?;
        let word = first
            .records()
            .first()
            .and_then(|host| host["status"].as_str());
        let value = word.and_then(|word| match word {
            "running" | "stopped" => Some("running"),
            "on" | "off" => Some("on"),
            "active" => Some("active"),
            _ => None,
        });
        let details = match word {
            Some(word) => format!("status of a host: {word}"),
            None => "the account has no host".to_owned(),
        };
        self.record("hostStatus", value, details);
        let (value, details) = match (first.has_page_token, rest.records().is_empty()) {
            (true, _) => (Some("token"), "a page came with PAGE-TOKEN"),
            (false, false) => (
                Some("range"),
                "a page came without PAGE-TOKEN; another followed",
            ),
            (false, true) => (None, "the account has fewer than two hosts"),
        };
        self.record("hostPaging", value, details);
        Ok(())
    }
}
