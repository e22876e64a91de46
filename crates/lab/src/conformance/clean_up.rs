//! Releases and deletes everything that this run made, and nothing else. A server counts as made by this run if an order
//! was answered with its UUID, or if it has the tag or the name of the run.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::delivery::is_waiting;
use super::raw_client::{RawCall, uuid};
use super::reads::SERVERS;
use super::tags::{SUFFIXES, has_tag};
use super::{Drill, DrillError, report};

/// How long a server may take to appear in the list after an order of unknown outcome.
const LOST_MINUTES: u32 = 15;
/// How long a release is tried at most.
const CLEAN_UP_MINUTES: u32 = 180;
/// A release is tried until it was refused for this long, without another answer in between.
const REFUSED_MINUTES: u32 = 15;
const ATTEMPTS: u32 = 5;

const FILTERS: [&str; 6] = [
    "creating",
    "provisioning",
    "delivered",
    "failed",
    "releasing",
    "released",
];

impl Drill {
    /// Cleans up. Returns what remains, each with what to do about it.
    pub(super) async fn clean_up(&mut self) -> Vec<String> {
        self.raw.interrupt = None;
        let mut remains = Vec::new();
        let ordered = self.server.clone();
        if let Some(uuid) = &ordered {
            self.release_server(uuid, &mut remains).await;
        }
        if self.has_ordered {
            self.raw
                .print_progress("looking for other servers of this run");
            match self.find_own_servers().await {
                Ok(found) => {
                    for uuid in found.iter().filter(|it| Some(*it) != ordered.as_ref()) {
                        self.server = Some(uuid.clone());
                        self.release_server(uuid, &mut remains).await;
                    }
                }
                Err(why) => remains.push(format!(
                    "Whether a server named {} exists is unknown: {why}. Look for it in the provider's portal, and \
                     release it if it is there.",
                    self.run
                )),
            }
        }
        // The tag still finds a server that remains.
        if remains.is_empty() {
            self.delete_tags(&mut remains).await;
        }
        self.delete_keys(&mut remains).await;
        remains
    }

    /// The servers of this run. After an order of unknown outcome, waits for one to appear.
    async fn find_own_servers(&self) -> Result<Vec<String>, String> {
        if self.is_outcome_unknown {
            self.raw.print_progress(&format!(
                "the order may have had an effect; looking for {LOST_MINUTES} minutes"
            ));
        }
        let begun = Instant::now();
        let mut pause = Duration::from_millis(200);
        loop {
            let why = match self.list_own_servers().await {
                Ok(found) if !found.is_empty() || !self.is_outcome_unknown => return Ok(found),
                Ok(_) => {
                    format!(
                        "the outcome of an order is unknown, and no server appeared in {LOST_MINUTES} minutes"
                    )
                }
                Err(error) => report::explain(&error),
            };
            if begun.elapsed() > self.minute * LOST_MINUTES {
                return Err(why);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }

    async fn list_own_servers(&self) -> Result<Vec<String>, DrillError> {
        let mut servers = self.raw.list_all(&SERVERS, &[]).await;
        if let Err(DrillError::Refused(_)) = servers {
            // The API may demand filters.
            let mut found = Vec::new();
            for status in FILTERS {
                let query = [("status", status), ("tag", &*self.run)];
                found.extend(self.raw.list_all(&SERVERS, &query).await?);
            }
            servers = Ok(found);
        }
        let mut servers = servers?;
        servers.retain(|it| it["name"] == *self.run || has_tag(it, &self.run));
        Ok(servers.iter().filter_map(uuid).collect())
    }

    /// Releases the server: repeats the request until the server shows that it is released.
    async fn release_server(&mut self, uuid: &str, remains: &mut Vec<String>) {
        let begun = Instant::now();
        let (mut refused_since, mut last) = (None, String::new());
        let mut pause = Duration::from_millis(200);
        while begun.elapsed() < self.minute * CLEAN_UP_MINUTES {
            let why = match self.try_release().await {
                Ok(ReleaseProgress::Released) => return,
                Ok(ReleaseProgress::Refused(why)) => {
                    refused_since.get_or_insert_with(Instant::now);
                    why
                }
                Ok(ReleaseProgress::InProgress(why)) => {
                    refused_since = None;
                    why
                }
                Err(error) => {
                    refused_since = None;
                    report::explain(&error)
                }
            };
            if why != last {
                let line = format!("releasing server {uuid}: {why}; trying again");
                self.raw.print_progress(&line);
                last = why;
            }
            if refused_since.is_some_and(|at| at.elapsed() > self.minute * REFUSED_MINUTES) {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        remains.push(format!(
            "Server {uuid} ({}) is not released and still costs money: {last}. Release it in the provider's portal, or \
             with DELETE {}/v3/flexMetal/servers/{uuid}.",
            self.run,
            self.client.base_url()
        ));
    }

    async fn try_release(&mut self) -> Result<ReleaseProgress, DrillError> {
        // If the server cannot be read, it can perhaps be released.
        let status = match self.read_server().await {
            Ok(server) => server.text("status").to_owned(),
            Err(_) => String::new(),
        };
        match &*status {
            "released" => return Ok(ReleaseProgress::Released),
            "releasing" => {
                let why = "the server is being released".to_owned();
                return Ok(ReleaseProgress::InProgress(why));
            }
            _ => {}
        }
        let answer = self.send_release().await?;
        let values = [(422, "refuse422"), (200, "accept"), (409, "refuse409")];
        if status == "failed" {
            self.record_status("releaseFailed", &answer, &values);
            // The provider has released a failed server already.
            if answer.status == 422 {
                return Ok(ReleaseProgress::Released);
            }
        } else if is_waiting(&status) {
            self.record_status("releaseWhileWaiting", &answer, &values);
        }
        let why = format!("the release was answered {}", answer.describe());
        let is_refused =
            (400..500).contains(&answer.status) && ![409, 423, 429].contains(&answer.status);
        Ok(match is_refused && !is_waiting(&status) {
            true => ReleaseProgress::Refused(why),
            false => ReleaseProgress::InProgress(why),
        })
    }

    async fn delete_tags(&self, remains: &mut Vec<String>) {
        let mut tags = BTreeSet::from(SUFFIXES.map(|suffix| self.tag(suffix)));
        tags.insert(self.run.clone());
        // The API may have accepted a tag that it should have refused.
        match self.list_own(&["flexMetal", "tags"], "tag").await {
            Ok(records) => {
                let names = records.iter().filter_map(|it| it["tag"].as_str());
                tags.extend(names.map(str::to_owned));
            }
            Err(why) => remains.push(format!(
                "Whether other tags that start with {} remain is unknown: {why}. Look for them, and delete them.",
                self.run
            )),
        }
        for tag in tags {
            let path = ["flexMetal", "tags", &tag];
            if let Err(why) = self.delete(&path).await {
                // A failed server may still have it.
                let is_removed = self.server.is_some() && self.untag(&tag).await.is_ok();
                if is_removed && self.delete(&path).await.is_ok() {
                    continue;
                }
                remains.push(format!(
                    "Tag {tag} remains: {why}. Delete it in the portal."
                ));
            }
        }
    }

    /// Deletes the stored keys: those whose UUIDs are known, and those with the name of this run.
    async fn delete_keys(&self, remains: &mut Vec<String>) {
        let mut keys = BTreeSet::from_iter(self.keys.iter().cloned());
        match self.list_own(&["sshKey"], "name").await {
            Ok(records) => keys.extend(records.iter().filter_map(uuid)),
            Err(why) => remains.push(format!(
                "Whether an SSH key named {} remains is unknown: {why}. Look for it, and delete it.",
                self.run
            )),
        }
        for key in keys {
            if let Err(why) = self.delete(&["sshKey", &key]).await {
                let run = &self.run;
                remains.push(format!("SSH key {key} ({run}) remains: {why}. Delete it."));
            }
        }
    }

    /// The records of a list whose field starts with the name of this run.
    async fn list_own(&self, path: &[&str], field: &str) -> Result<Vec<Value>, String> {
        let is_own = |record: &Value| {
            let name = record[field].as_str();
            name.is_some_and(|name| name.starts_with(&self.run))
        };
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.raw.list_all(path, &[]).await {
                Ok(records) => return Ok(records.into_iter().filter(is_own).collect()),
                Err(error) => last = report::explain(&error),
            }
            sleep(Duration::from_secs(1)).await;
        }
        Err(last)
    }

    /// Sends a DELETE until it succeeds, or nothing is there.
    async fn delete(&self, path: &[&str]) -> Result<(), String> {
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            match self.raw.send(RawCall::new(Method::DELETE, path)).await {
                Ok(answer) if answer.is_success() || answer.status == 404 => return Ok(()),
                Ok(answer) => last = format!("the deletion was answered {}", answer.describe()),
                Err(error) => last = report::explain(&error),
            }
            sleep(Duration::from_millis(200) * 2_u32.pow(attempt)).await;
        }
        Err(last)
    }
}

/// How far a release is.
enum ReleaseProgress {
    Released,
    /// It may succeed later.
    InProgress(String),
    /// The same request will probably be refused again.
    Refused(String),
}
