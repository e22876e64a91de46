//! Each operation as a call of the client.

use std::fmt;

use hosting::{Client, page::HostCursor};
use hosting_types::{Page, SecretText, ServerFilter, command::PowerCommand};

use crate::{
    checks,
    operations::Operation,
    reply::Reply,
    scene::{ORDER_TAG, Scene},
};

/// A password, which has no `Debug` of its own.
pub(crate) struct Kept(pub(crate) SecretText);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl Operation {
    /// Makes the call as the scene asks for it.
    pub(crate) async fn call(self, scene: &Scene) -> Reply {
        self.call_with(&scene.client, scene).await
    }

    /// The same with another client.
    #[allow(clippy::too_many_lines, reason = "one line or two for each operation")]
    pub(crate) async fn call_with(self, client: &Client, scene: &Scene) -> Reply {
        let wish = &scene.wishes;
        let page = Page::first();
        match self {
            Self::Whitelist => Reply::of(
                client.whitelist(wish.api_key, page).await,
                checks::whitelist,
            ),
            Self::AddToWhitelist => Reply::of(
                client.add_to_whitelist(wish.api_key, &wish.rule).await,
                checks::added_entry,
            ),
            Self::ChangeWhitelist => {
                let rule = &wish.rule;
                let changed = client.change_whitelist(wish.api_key, wish.entry, rule);
                Reply::of(changed.await, checks::changed_entry)
            }
            Self::RemoveFromWhitelist => {
                let removed = client.remove_from_whitelist(wish.api_key, wish.entry);
                Reply::of(removed.await, checks::nothing)
            }
            Self::ChangePassword => {
                let changed = client.change_password(&wish.password, &wish.new_password);
                Reply::of(changed.await, checks::nothing)
            }
            Self::ResetPassword => {
                Reply::of(client.reset_password(wish.email).await, checks::nothing)
            }
            Self::ValidateReset => {
                let ended = client.validate_password_reset(&wish.new_password, &wish.reset_hash);
                Reply::of(ended.await, checks::nothing)
            }
            Self::Locations => Reply::of(client.locations().await, checks::locations),
            Self::InstanceTypes => {
                let types = client.instance_types(wish.location).await;
                Reply::of(types, checks::instance_types)
            }
            Self::Plans => Reply::of(client.plans().await, checks::plans),
            Self::Servers => {
                let filter = ServerFilter {
                    status: wish.status,
                    tags: wish.tags.clone(),
                };
                Reply::of(client.servers(&filter, page).await, checks::servers)
            }
            Self::Order => {
                Reply::of_order(client.order(&wish.order, ORDER_TAG).await, checks::created)
            }
            Self::Server => Reply::of(client.server(&wish.machine).await, checks::server),
            Self::Reinstall => Reply::of(
                client.reinstall(&wish.machine, &wish.reinstall).await,
                checks::server,
            ),
            Self::Release => Reply::of(client.release(&wish.machine).await, checks::releasing),
            Self::HardwareListing => Reply::of(
                client.hardware_listing(&wish.machine).await,
                checks::hardware,
            ),
            Self::RootPassword => {
                let password = client.root_password(&wish.windows).await;
                Reply::of(password.map(Kept), checks::root_password)
            }
            Self::Commands => Reply::of(
                client.commands(&wish.machine, None, page).await,
                checks::commands,
            ),
            Self::SendCommand => {
                let sent = client.send_command(&wish.machine, PowerCommand::PowerOff);
                Reply::of(sent.await, checks::sent_command)
            }
            Self::Command => Reply::of(
                client.command(&wish.machine, &wish.command).await,
                checks::command,
            ),
            Self::Tags => Reply::of(client.tags(page).await, checks::tags),
            Self::CreateTag => Reply::of(client.create_tag(&wish.new_tag).await, checks::new_tag),
            Self::Tag => Reply::of(client.tag(&wish.tag).await, checks::spare_tag),
            Self::RenameTag => Reply::of(
                client.rename_tag(&wish.tag, &wish.new_tag).await,
                checks::new_tag,
            ),
            Self::DeleteTag => Reply::of(client.delete_tag(&wish.tag).await, checks::nothing),
            Self::AddTag => Reply::of(
                client.add_tag(&wish.machine, &wish.new_tag).await,
                checks::tagged,
            ),
            Self::RemoveTag => Reply::of(
                client.remove_tag(&wish.machine, &wish.borne).await,
                checks::untagged,
            ),
            Self::QuotaUsage => Reply::of(client.quota_usage().await, checks::quotas),
            Self::Usage => {
                let (first, last) = wish.days;
                let usage = client.usage(Some(first), Some(last)).await;
                Reply::of(usage, checks::usage)
            }
            Self::CapacityCommits => Reply::of(client.capacity_commits().await, checks::commits),
            Self::Hosts => {
                let hosts = client.hosts(wish.labels, &HostCursor::Range(page)).await;
                Reply::of(hosts, checks::hosts)
            }
            Self::Host => Reply::of(client.host(wish.host).await, checks::host),
            Self::StartHost => Reply::of(client.start_host(wish.host).await, checks::acted),
            Self::StopHost => Reply::of(client.stop_host(wish.host).await, checks::acted),
            Self::RestartHost => Reply::of(client.restart_host(wish.host).await, checks::acted),
            Self::InstallHost => Reply::of(
                client.install_host(wish.host, &wish.install).await,
                checks::nothing,
            ),
            Self::InstallLog => Reply::of(
                client.install_log(wish.host, page, &[]).await,
                checks::install_log,
            ),
            Self::OperatingSystems => Reply::of(client.operating_systems().await, checks::systems),
            Self::SshKeys => Reply::of(client.ssh_keys().await, checks::ssh_keys),
            Self::CreateSshKey => Reply::of(
                client.create_ssh_key("you", wish.public_key).await,
                checks::stored_key,
            ),
            Self::SshKey => Reply::of(client.ssh_key(&wish.ssh_key).await, checks::ssh_key),
            Self::DeleteSshKey => {
                Reply::of(client.delete_ssh_key(&wish.ssh_key).await, checks::nothing)
            }
            Self::Health => Reply::of(client.health().await, checks::health),
        }
    }
}
