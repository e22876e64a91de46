//! Releases and deletes everything that this run made, and nothing else. A server counts as made by this run if it has
//! the tag and the name of the run.

use std::time::Duration;

use hosting_types::{Error, Page, ServerFilter, StatusFilter};
use http::Method;
use tokio::time::{Instant, sleep};

use super::release::RELEASE_WITHIN;
use super::tags::SUFFIXES;
use super::wire::RawCall;
use super::{Drill, DrillError, print_progress, report};

/// How long a server may take to appear in the list after an order of unknown outcome.
const LOST_WITHIN: Duration = Duration::from_mins(15);
/// A release that is refused before the delivery is sent until this time is over.
const CLEAN_UP_WITHIN: Duration = RELEASE_WITHIN.saturating_mul(3);
/// How many refusals that are not about the moment end the attempts.
const REFUSALS: u32 = 5;
const ATTEMPTS: u32 = 5;

const FILTERS: [StatusFilter; 6] = [
    StatusFilter::Creating,
    StatusFilter::Provisioning,
    StatusFilter::Delivered,
    StatusFilter::Failed,
    StatusFilter::Releasing,
    StatusFilter::Released,
];

impl Drill {
    /// Cleans up. Returns what remains, each with what to do about it.
    pub(super) async fn clean_up(&mut self) -> Vec<String> {
        let mut remains = Vec::new();
        let mut servers: Vec<String> = self.server.iter().cloned().collect();
        if self.has_ordered {
            print_progress("looking for servers of this run, and releasing them");
            match self.find_own_servers().await {
                Ok(found) => servers.extend(found),
                Err(why) => remains.push(format!(
                    "Whether a server named {} exists is unknown: {why}. Look for it in the provider's portal, and \
                     release it if it is there.",
                    self.run
                )),
            }
        }
        servers.sort();
        servers.dedup();
        for uuid in servers {
            self.server = Some(uuid.clone());
            if let Err(why) = self.release_server().await {
                remains.push(format!(
                    "Server {uuid} ({}) is not released and may cost money: {why}. Release it in the provider's \
                     portal, or with DELETE {}/v3/flexMetal/servers/{uuid}.",
                    self.run,
                    self.client.base_url()
                ));
            }
        }
        // The tag still finds a server that remains.
        if remains.is_empty() {
            self.delete_tags(&mut remains).await;
        }
        self.delete_keys(&mut remains).await;
        remains
    }

    /// The servers with tag and name of this run. After an order of unknown outcome, waits for one to appear.
    async fn find_own_servers(&self) -> Result<Vec<String>, String> {
        if self.is_outcome_unknown {
            let minutes = LOST_WITHIN.as_secs() / 60;
            print_progress(&format!(
                "the order may have had an effect; looking for {minutes} minutes"
            ));
        }
        let begun = Instant::now();
        let mut pause = Duration::from_millis(200);
        let mut failures = 0;
        loop {
            match self.list_own_servers().await {
                Ok(found) if !found.is_empty() || !self.is_outcome_unknown => return Ok(found),
                Ok(_) if begun.elapsed() > LOST_WITHIN => {
                    let minutes = LOST_WITHIN.as_secs() / 60;
                    let why =
                        format!("the order got no answer, and none appeared in {minutes} minutes");
                    return Err(why);
                }
                Ok(_) => {}
                Err(error) => {
                    failures += 1;
                    if begun.elapsed() > LOST_WITHIN || (failures >= ATTEMPTS && !error.is_outage())
                    {
                        return Err(error.explain());
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }

    async fn list_own_servers(&self) -> Result<Vec<String>, Error> {
        let filter = |status| ServerFilter {
            status,
            tags: vec![self.run.clone()],
        };
        let found = match self.client.servers(&filter(None), Page::first()).await {
            // The API may demand a status.
            Err(Error::Refused(_)) => {
                let mut found = Vec::new();
                for status in FILTERS {
                    let filter = filter(Some(status));
                    found.extend(self.client.servers(&filter, Page::first()).await?);
                }
                found
            }
            other => other?,
        };
        let own = found
            .into_iter()
            .filter(|it| it.has_tag(&self.run) && it.name == self.run);
        Ok(own.map(|server| server.id.as_str().to_owned()).collect())
    }

    /// Releases the server. Repeats the request until the server shows that it is released.
    async fn release_server(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let (mut refusals, mut last) = (0, String::from("it does not show its release"));
        let mut pause = Duration::from_millis(200);
        while begun.elapsed() < CLEAN_UP_WITHIN && refusals < REFUSALS {
            match self.try_release().await {
                Ok(ReleaseProgress::Ended) => return Ok(()),
                Ok(ReleaseProgress::Going) => {}
                Ok(ReleaseProgress::Refused { why, is_final }) => {
                    last = why;
                    refusals += u32::from(is_final);
                }
                Err(error) => last = report::explain(&error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        Err(last)
    }

    async fn try_release(&mut self) -> Result<ReleaseProgress, DrillError> {
        let server = self.read_server().await?;
        let status = server.text("status").to_owned();
        match &*status {
            "released" => return Ok(ReleaseProgress::Ended),
            "releasing" => return Ok(ReleaseProgress::Going),
            _ => {}
        }
        let answer = self.send_release().await?;
        let values = [(422, "refuse422"), (200, "accept"), (409, "refuse409")];
        match &*status {
            // The provider has taken a failed server back already.
            "failed" => {
                self.record_status("releaseFailed", &answer, &values);
                if answer.status == 422 {
                    return Ok(ReleaseProgress::Ended);
                }
            }
            "delivered" | "" => {}
            _ => self.record_status("releaseWhileWaiting", &answer, &values),
        }
        if answer.is_success() {
            return Ok(ReleaseProgress::Going);
        }
        let is_final =
            (400..500).contains(&answer.status) && ![409, 423, 429].contains(&answer.status);
        let why = format!("the release was answered {}", answer.describe());
        Ok(ReleaseProgress::Refused { why, is_final })
    }

    async fn delete_tags(&self, remains: &mut Vec<String>) {
        let mut tags = vec![self.run.clone()];
        tags.extend(SUFFIXES.map(|suffix| self.tag(suffix)));
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

    /// Deletes the stored keys with the name of this run.
    async fn delete_keys(&self, remains: &mut Vec<String>) {
        let mut keys = self.client.ssh_keys().await;
        for _ in 1..ATTEMPTS {
            if keys.is_ok() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
            keys = self.client.ssh_keys().await;
        }
        match keys {
            Ok(keys) => {
                for key in keys.iter().filter(|key| key.name == self.run) {
                    if let Err(why) = self.delete(&["sshKey", key.id.as_str()]).await {
                        let id = key.id.as_str();
                        let left =
                            format!("SSH key {id} ({}) remains: {why}. Delete it.", self.run);
                        remains.push(left);
                    }
                }
            }
            Err(error) => remains.push(format!(
                "Whether an SSH key named {} remains is unknown: {}. Look for it, and delete it.",
                self.run,
                error.explain()
            )),
        }
    }

    /// Sends a DELETE until it succeeds, or nothing is there.
    async fn delete(&self, path: &[&str]) -> Result<(), String> {
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            match self.wire.send(RawCall::new(Method::DELETE, path)).await {
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
    Ended,
    Going,
    Refused {
        why: String,
        /// Whether the same request will probably be refused again.
        is_final: bool,
    },
}
