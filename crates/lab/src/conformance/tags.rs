//! Tags: added, removed, renamed, deleted. All start with the name of the run.

use http::Method;
use serde_json::{Value, json};

use super::raw_client::RawAnswer;
use super::{Drill, DrillError};

/// Ends of the tags that the drill makes, next to the tag of the run.
pub(super) const SUFFIXES: [&str; 7] = ["field", "added", "used", "old", "new", "absent", "late"];

impl Drill {
    pub(super) async fn probe_tags(&mut self) -> Result<(), DrillError> {
        self.raw.print_progress("probing tags");
        let body = json!({"tag": self.tag("field"), "conformance": true});
        let answer = self.change(Method::POST, &["tags"], Some(body)).await?;
        self.record_status(
            "unknownFields",
            &answer,
            &[(422, "refuse422"), (200, "ignore")],
        );
        let answer = self.send_tag(&self.run_name).await?;
        let values = [(422, "refuse422"), (409, "refuse409"), (200, "answer200")];
        self.record_status("duplicateTag", &answer, &values);
        let answer = self.untag(&self.tag("absent")).await?;
        let values = [(404, "answer404"), (200, "answer200")];
        self.record_status("removeAbsentTag", &answer, &values);

        let added = self.tag("added");
        let answer = self.tag_server(&added).await?;
        self.record_status(
            "addUnknownTag",
            &answer,
            &[(200, "make"), (404, "refuse404")],
        );
        if !answer.is_success() {
            self.send_tag(&added).await?;
            self.tag_server(&added).await?;
        }
        self.untag(&added).await?;
        let answer = self.change(Method::GET, &["tags", &added], None).await?;
        self.record_status("unusedTags", &answer, &[(200, "keep"), (404, "drop")]);

        self.probe_rename().await?;
        self.probe_delete().await
    }

    async fn probe_rename(&mut self) -> Result<(), DrillError> {
        let (old, new) = (self.tag("old"), self.tag("new"));
        self.send_tag(&old).await?;
        self.tag_server(&old).await?;
        let body = json!({"tag": new});
        let renamed = self
            .change(Method::PUT, &["tags", &old], Some(body))
            .await?;
        if !renamed.is_success() {
            let details = format!("the rename was answered {}", renamed.describe());
            self.record("renameTag", None, details);
            self.untag(&old).await?;
            return Ok(());
        }
        let server = self.read_server().await?;
        let (value, details) = match (
            has_tag(server.record(), &new),
            has_tag(server.record(), &old),
        ) {
            (true, false) => (Some("follow"), "the server has the new name"),
            (false, false) => (Some("detach"), "the server has neither name"),
            (false, true) => (Some("keep"), "the server has the old name"),
            (true, true) => (None, "the server has both names"),
        };
        self.record("renameTag", value, details);
        for tag in [old, new] {
            if has_tag(server.record(), &tag) {
                self.untag(&tag).await?;
            }
        }
        Ok(())
    }

    async fn probe_delete(&mut self) -> Result<(), DrillError> {
        let used = self.tag("used");
        self.send_tag(&used).await?;
        self.tag_server(&used).await?;
        let deleted = self.change(Method::DELETE, &["tags", &used], None).await?;
        let server = self.read_server().await?;
        let is_left = has_tag(server.record(), &used);
        let (value, details) = match (deleted.is_success(), deleted.status, is_left) {
            (true, _, false) => (Some("detach"), "the server lost the tag"),
            (true, _, true) => (Some("keep"), "the server kept the tag"),
            (false, 409, _) => (Some("refuse409"), "the deletion was refused"),
            _ => (None, "the deletion failed"),
        };
        let details = format!("{details}; answered {}", deleted.describe());
        self.record("deleteUsedTag", value, details);
        if is_left {
            self.untag(&used).await?;
        }
        Ok(())
    }

    pub(super) async fn send_tag(&self, tag: &str) -> Result<RawAnswer, DrillError> {
        self.change(Method::POST, &["tags"], Some(json!({"tag": tag})))
            .await
    }

    pub(super) async fn tag_server(&self, tag: &str) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        self.change(Method::POST, &["servers", &uuid, "tag", tag], None)
            .await
    }

    pub(super) async fn untag(&self, tag: &str) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        self.change(Method::DELETE, &["servers", &uuid, "tag", tag], None)
            .await
    }
}

pub(super) fn has_tag(server: &Value, tag: &str) -> bool {
    let tags = server["tags"].as_array().into_iter().flatten();
    tags.filter_map(Value::as_str).any(|own| own == tag)
}
