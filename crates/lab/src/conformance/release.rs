//! The release of the server, and what a released server answers.

use http::Method;
use tokio::time::Instant;

use super::raw_client::RawAnswer;
use super::retry::poll;
use super::{Drill, DrillError};

pub(super) const RELEASE_MINUTES: u32 = 60;

impl Drill {
    pub(super) async fn probe_release(&mut self) -> Result<(), DrillError> {
        self.raw.print_progress("releasing the server");
        let begun = Instant::now();
        let first = self.send_release().await?;
        if !first.is_success() {
            // The clean-up tries again.
            return Err(DrillError::Refused(format!(
                "the release: {}",
                first.describe()
            )));
        }
        let second = self.send_release().await?;
        let between = self.read_server().await?;
        if between.text("status") == "releasing" {
            let values = [(200, "answer200"), (409, "refuse409")];
            self.record_status("releaseReleasing", &second, &values);
        } else {
            self.record("releaseReleasing", None, "the release ended too soon");
        }
        let released = poll(self.minute * RELEASE_MINUTES, async || {
            let answer = self.read_server().await?;
            Ok((answer.text("status") == "released").then_some(()))
        });
        let (what, minutes) = ("the release", RELEASE_MINUTES);
        released
            .await?
            .ok_or(DrillError::TooSlow { what, minutes })?;
        self.time("Release", begun);
        let third = self.send_release().await?;
        let values = [(422, "refuse422"), (200, "answer200")];
        self.record_status("releaseReleased", &third, &values);
        let late = self.tag("late");
        self.send_tag(&late).await?;
        let answer = self.tag_server(&late).await?;
        self.record_status(
            "tagReleased",
            &answer,
            &[(200, "accept"), (422, "refuse422")],
        );
        if answer.is_success() {
            self.untag(&late).await?;
        }
        Ok(())
    }

    /// Sends one DELETE of the server.
    pub(super) async fn send_release(&self) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        self.change(Method::DELETE, &["servers", &uuid], None).await
    }
}
