//! Which calls may be repeated when their outcome is unknown.

use super::script::{Script, answer};
use super::{UUID, id};
use crate::command::PowerCommand;
use crate::host::HostInstall;
use crate::server::{Reinstall, SystemFamily};
use crate::transport::{Response, TransportError};
use crate::whitelist::{AddressRange, WhitelistRule};
use crate::{ApiKeyId, Client, Error, HostId, Page, SecretText, SshKeyId, WhitelistEntryId};

type Outcome = Result<Response, TransportError>;

/// Failures that leave the outcome open; each may pass by itself.
fn unclear() -> Vec<Outcome> {
    vec![
        Ok(answer(503, "")),
        Ok(answer(500, "")),
        Ok(answer(408, "")),
        Ok(answer(409, "")),
        Ok(answer(200, "<html>Please log in</html>")),
        Err(TransportError::Interrupted("reset".into())),
    ]
}

/// Failures that show that nothing was done, and may pass by itself.
fn clear() -> Vec<Outcome> {
    vec![
        Ok(answer(429, "")),
        Err(TransportError::Connect("refused".into())),
    ]
}

fn client(outcome: Outcome) -> Client {
    Script::client(vec![outcome]).0
}

/// The errors of all idempotent calls.
async fn harmless(outcomes: impl Fn() -> Vec<Outcome>) -> Vec<(&'static str, Error)> {
    let (api_key, entry) = (ApiKeyId(1), WhitelistEntryId(1));
    let mut errors = Vec::new();
    for at in 0..outcomes().len() {
        let client = || client(outcomes().remove(at));
        let key = SshKeyId::parse(UUID).unwrap();
        let change = client().change_whitelist(api_key, entry, &rule()).await;
        let removal = client().remove_from_whitelist(api_key, entry).await;
        errors.extend([
            ("read", client().server(&id()).await.err()),
            ("list", client().tags(Page::first()).await.err()),
            ("release", client().release(&id()).await.err()),
            ("tag", client().add_tag(&id(), "a").await.err()),
            ("untag", client().remove_tag(&id(), "a").await.err()),
            ("delete tag", client().delete_tag("a").await.err()),
            ("delete key", client().delete_ssh_key(&key).await.err()),
            ("rule", change.err()),
            ("no rule", removal.err()),
        ]);
    }
    told(errors)
}

/// The errors of all calls that must not be made twice.
async fn harmful(outcomes: impl Fn() -> Vec<Outcome>) -> Vec<(&'static str, Error)> {
    let password = SecretText::new("a new password");
    let mut install = HostInstall::new(1, SystemFamily::Linux);
    install.ssh_key = SshKeyId::parse(UUID).ok();
    let mut errors = Vec::new();
    for at in 0..outcomes().len() {
        let client = || client(outcomes().remove(at));
        let wipe = client().reinstall(&id(), &Reinstall::default()).await;
        let reboot = client().send_command(&id(), PowerCommand::Reboot).await;
        let key = client().create_ssh_key("n", "ssh-ed25519 AAAA").await;
        let rule = client().add_to_whitelist(ApiKeyId(1), &rule()).await;
        let new = client().change_password(&password, &password).await;
        errors.extend([
            ("reinstall", wipe.err()),
            ("reboot", reboot.err()),
            ("key", key.err()),
            ("rule", rule.err()),
            ("password", new.err()),
            ("rename", client().rename_tag("a", "b").await.err()),
            ("restart", client().restart_host(HostId(1)).await.err()),
            (
                "install",
                client().install_host(HostId(1), &install).await.err(),
            ),
        ]);
    }
    told(errors)
}

fn rule() -> WhitelistRule {
    WhitelistRule {
        range: AddressRange::Net("192.0.2.0/24".parse().unwrap()),
        comments: None,
        active: true,
    }
}

fn told(errors: Vec<(&'static str, Option<Error>)>) -> Vec<(&'static str, Error)> {
    let errors = errors.into_iter();
    errors
        .map(|(call, error)| (call, error.unwrap_or_else(|| panic!("{call} succeeded"))))
        .collect()
}

#[tokio::test]
async fn only_what_does_no_harm_twice_is_repeated_when_its_outcome_is_unknown() {
    for (call, error) in harmless(unclear).await {
        assert!(error.is_retryable_as_is(), "{call}: {error:?}");
        assert!(error.may_have_taken_effect(), "{call}: {error:?}");
    }
    for (call, error) in harmful(unclear).await {
        assert!(!error.is_retryable_as_is(), "{call}: {error:?}");
        assert!(error.may_have_taken_effect(), "{call}: {error:?}");
    }
}

#[tokio::test]
async fn what_was_surely_not_done_may_be_asked_for_again() {
    for (call, error) in harmless(clear)
        .await
        .into_iter()
        .chain(harmful(clear).await)
    {
        assert!(error.is_retryable_as_is(), "{call}: {error:?}");
        assert!(!error.may_have_taken_effect(), "{call}: {error:?}");
    }
}
