//! Releases and deletes everything that this run made, and nothing else. A server counts as made by this run if an order
//! was answered with its UUID, or if it has the tag or the name of the run.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::delivery::is_waiting;
use super::raw_client::{RawCall, uuid};
use super::reads::SERVERS;
use super::retry::{poll, retry};
use super::tags::{SUFFIXES, has_tag};
use super::{Drill, DrillError};
use crate::explain_error;

/// How long a server may take to appear in the list after an order of unknown outcome.
const LOST_MINUTES: u32 = 15;
/// How long a release is tried at most.
const CLEAN_UP_MINUTES: u32 = 180;
/// A release is given up earlier if every attempt was refused for this long.
const REFUSED_MINUTES: u32 = 15;
/// How long the first request of a release may wait for the read before it.
const FIRST_READ_SECONDS: u64 = 5;

const STATUS_FILTERS: [&str; 6] = [
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
        let mut leftovers = Vec::new();
        let ordered = self.server.clone();
        if let Some(uuid) = &ordered {
            self.release_server(uuid, &mut leftovers).await;
        }
        if self.has_ordered {
            self.raw
                .print_progress("looking for other servers of this run");
            match self.find_own_servers().await {
                Ok(found) => {
                    for uuid in found.iter().filter(|it| Some(*it) != ordered.as_ref()) {
                        self.server = Some(uuid.clone());
                        self.release_server(uuid, &mut leftovers).await;
                    }
                }
                Err(why) => leftovers.push(format!(
                    "Whether a server named {} exists is unknown: {why}. Look for it in the provider's portal, and \
                     release it if it is there.",
                    self.run_name
                )),
            }
        }
        // The tag still finds a server that remains.
        if leftovers.is_empty() {
            self.delete_tags(&mut leftovers).await;
        }
        self.delete_keys(&mut leftovers).await;
        leftovers
    }

    /// The servers of this run. After an order of unknown outcome, waits for one to appear.
    async fn find_own_servers(&self) -> Result<Vec<String>, String> {
        if self.is_outcome_unknown {
            self.raw.print_progress(&format!(
                "the order may have had an effect; looking for {LOST_MINUTES} minutes"
            ));
        }
        let mut why = String::new();
        let found = poll::<_, String>(self.minute * LOST_MINUTES, async || {
            match self.list_own_servers().await {
                Ok(found) if !found.is_empty() || !self.is_outcome_unknown => {
                    return Ok(Some(found));
                }
                Ok(_) => {
                    why = format!(
                        "the outcome of an order is unknown, and no server appeared in {LOST_MINUTES} minutes"
                    );
                }
                Err(error) => why = explain_error(&error),
            }
            Ok(None)
        });
        found.await?.ok_or(why)
    }

    async fn list_own_servers(&self) -> Result<Vec<String>, DrillError> {
        let mut servers = self.raw.list_all(&SERVERS, &[]).await;
        if let Err(DrillError::Refused(_)) = servers {
            // If the API requires filters, only the tag finds the servers.
            let mut found = Vec::new();
            for status in STATUS_FILTERS {
                let query = [("status", status), ("tag", &*self.run_name)];
                found.extend(self.raw.list_all(&SERVERS, &query).await?);
            }
            servers = Ok(found);
        }
        let mut servers = servers?;
        servers.retain(|it| it["name"] == *self.run_name || has_tag(it, &self.run_name));
        Ok(servers.iter().filter_map(uuid).collect())
    }

    /// Releases the server: repeats the request until the server shows that it is released.
    async fn release_server(&mut self, uuid: &str, leftovers: &mut Vec<String>) {
        let (mut refused_since, mut last) = (None::<Instant>, String::new());
        let refused_limit = self.minute * REFUSED_MINUTES;
        let mut read_within = Duration::from_secs(FIRST_READ_SECONDS);
        let this = &mut *self;
        let released = poll(this.minute * CLEAN_UP_MINUTES, async || {
            let progress = this.try_release(read_within).await;
            // A slow API must still be able to show that the server is released.
            read_within = Duration::MAX;
            let why = match progress {
                ReleaseProgress::Released => return Ok(Some(())),
                ReleaseProgress::Refused(why) => {
                    refused_since.get_or_insert_with(Instant::now);
                    why
                }
                ReleaseProgress::InProgress(why) => {
                    refused_since = None;
                    why
                }
            };
            if why != last {
                let line = format!("releasing server {uuid}: {why}; trying again");
                this.raw.print_progress(&line);
                last = why;
            }
            match refused_since.is_some_and(|at| at.elapsed() > refused_limit) {
                true => Err(()),
                false => Ok(None),
            }
        });
        if released.await == Ok(Some(())) {
            return;
        }
        leftovers.push(format!(
            "Server {uuid} ({}) is not released and still costs money: {last}. Release it in the provider's portal, or \
             with DELETE {}/v3/flexMetal/servers/{uuid}.",
            self.run_name,
            self.client.base_url()
        ));
    }

    async fn try_release(&mut self, read_within: Duration) -> ReleaseProgress {
        let status = self.read_status_once(read_within).await;
        match &*status {
            "released" => return ReleaseProgress::Released,
            "releasing" => {
                return ReleaseProgress::InProgress("the server is being released".to_owned());
            }
            _ => {}
        }
        let answer = match self.send_release().await {
            Ok(answer) => answer,
            Err(error) => return ReleaseProgress::InProgress(explain_error(&error)),
        };
        let values = [(422, "refuse422"), (200, "accept"), (409, "refuse409")];
        if status == "failed" {
            self.record_status("releaseFailed", &answer, &values);
            // The provider has released a failed server already.
            if answer.status == 422 {
                return ReleaseProgress::Released;
            }
        } else if is_waiting(&status) {
            self.record_status("releaseWhileWaiting", &answer, &values);
        }
        let why = format!("the release was answered {}", answer.describe());
        let is_refused =
            (400..500).contains(&answer.status) && ![409, 423, 429].contains(&answer.status);
        match is_refused && !is_waiting(&status) {
            true => ReleaseProgress::Refused(why),
            false => ReleaseProgress::InProgress(why),
        }
    }

    /// The status that one read shows, or an empty text. The server is this run's whatever the read shows, so a failing
    /// read must not delay the release.
    async fn read_status_once(&self, within: Duration) -> String {
        let uuid = self.uuid();
        let path = ["flexMetal", "servers", &uuid];
        let read = self.raw.send(RawCall::get(&path).once());
        match timeout(within, read).await {
            Ok(Ok(answer)) if answer.is_success() => answer.text("status").to_owned(),
            _ => String::new(),
        }
    }

    async fn delete_tags(&self, leftovers: &mut Vec<String>) {
        let mut tags = BTreeSet::from(SUFFIXES.map(|suffix| self.tag(suffix)));
        tags.insert(self.run_name.clone());
        // The API may have accepted a tag that it should have refused.
        match self.list_own(&["flexMetal", "tags"], "tag").await {
            Ok(records) => {
                let names = records.iter().filter_map(|it| it["tag"].as_str());
                tags.extend(names.map(str::to_owned));
            }
            Err(why) => leftovers.push(format!(
                "Whether other tags that start with {} remain is unknown: {why}. Look for them, and delete them.",
                self.run_name
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
                leftovers.push(format!(
                    "Tag {tag} remains: {why}. Delete it in the portal."
                ));
            }
        }
    }

    /// Deletes the stored keys: those whose UUIDs are known, and those with the name of this run.
    async fn delete_keys(&self, leftovers: &mut Vec<String>) {
        let mut keys = BTreeSet::from_iter(self.keys.iter().cloned());
        match self.list_own(&["sshKey"], "name").await {
            Ok(records) => keys.extend(records.iter().filter_map(uuid)),
            Err(why) => leftovers.push(format!(
                "Whether an SSH key named {} remains is unknown: {why}. Look for it, and delete it.",
                self.run_name
            )),
        }
        for key in keys {
            if let Err(why) = self.delete(&["sshKey", &key]).await {
                let run_name = &self.run_name;
                leftovers.push(format!(
                    "SSH key {key} ({run_name}) remains: {why}. Delete it."
                ));
            }
        }
    }

    /// The records of a list whose field starts with the name of this run.
    async fn list_own(&self, path: &[&str], field: &str) -> Result<Vec<Value>, String> {
        let is_own = |record: &Value| {
            let name = record[field].as_str();
            name.is_some_and(|name| name.starts_with(&self.run_name))
        };
        // It does not repeat a 5xx itself.
        let listed = retry(async || self.raw.list_all(path, &[]).await);
        let records = listed.await.map_err(|error| explain_error(&error))?;
        Ok(records.into_iter().filter(is_own).collect())
    }

    /// Sends a DELETE until it succeeds, or nothing is there.
    async fn delete(&self, path: &[&str]) -> Result<(), String> {
        let deleted = retry(async || {
            let answer = self.raw.send(RawCall::new(Method::DELETE, path)).await;
            match answer.map_err(|error| explain_error(&error))? {
                answer if answer.is_success() || answer.status == 404 => Ok(()),
                answer => Err(format!("the deletion was answered {}", answer.describe())),
            }
        });
        deleted.await
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
