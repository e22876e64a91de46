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
        let wish = &scene.arguments;
        let page = Page::first();
        match self {
            Self::Whitelist => Reply::from_result(
                client.whitelist(wish.api_key, page).await,
                checks::whitelist,
            ),
            Self::AddToWhitelist => Reply::from_result(
                client.add_to_whitelist(wish.api_key, &wish.rule).await,
                checks::added_entry,
            ),
            Self::ChangeWhitelist => {
                let rule = &wish.rule;
                let changed = client.change_whitelist(wish.api_key, wish.entry, rule);
                Reply::from_result(changed.await, checks::changed_entry)
            }
            Self::RemoveFromWhitelist => {
                let removed = client.remove_from_whitelist(wish.api_key, wish.entry);
                Reply::from_result(removed.await, checks::nothing)
            }
            Self::ChangePassword => {
                let changed = client.change_password(&wish.password, &wish.new_password);
                Reply::from_result(changed.await, checks::nothing)
            }
            Self::ResetPassword => {
                Reply::from_result(client.reset_password(wish.email).await, checks::nothing)
            }
            Self::ValidateReset => {
                let ended = client.validate_password_reset(&wish.new_password, &wish.reset_hash);
                Reply::from_result(ended.await, checks::nothing)
            }
            Self::Locations => Reply::from_result(client.locations().await, checks::locations),
            Self::InstanceTypes => {
                let types = client.instance_types(wish.location).await;
                Reply::from_result(types, checks::instance_types)
            }
            Self::Plans => Reply::from_result(client.plans().await, checks::plans),
            Self::Servers => {
                let filter = ServerFilter {
                    status: wish.status,
                    tags: wish.tags.clone(),
                };
                Reply::from_result(client.servers(&filter, page).await, checks::servers)
            }
            Self::Order => {
                Reply::of_order(client.order(&wish.order, ORDER_TAG).await, checks::created)
            }
            Self::Server => Reply::from_result(client.server(&wish.server).await, checks::server),
            Self::Reinstall => Reply::from_result(
                client.reinstall(&wish.server, &wish.reinstall).await,
                checks::server,
            ),
            Self::Release => {
                Reply::from_result(client.release(&wish.server).await, checks::releasing)
            }
            Self::HardwareListing => Reply::from_result(
                client.hardware_listing(&wish.server).await,
                checks::hardware,
            ),
            Self::RootPassword => {
                let password = client.root_password(&wish.windows).await;
                Reply::from_result(password.map(Kept), checks::root_password)
            }
            Self::Commands => Reply::from_result(
                client.commands(&wish.server, None, page).await,
                checks::commands,
            ),
            Self::SendCommand => {
                let sent = client.send_command(&wish.server, PowerCommand::PowerOff);
                Reply::from_result(sent.await, checks::sent_command)
            }
            Self::Command => Reply::from_result(
                client.command(&wish.server, &wish.command).await,
                checks::command,
            ),
            Self::Tags => Reply::from_result(client.tags(page).await, checks::tags),
            Self::CreateTag => {
                Reply::from_result(client.create_tag(&wish.new_tag).await, checks::new_tag)
            }
            Self::Tag => Reply::from_result(client.tag(&wish.tag).await, checks::spare_tag),
            Self::RenameTag => Reply::from_result(
                client.rename_tag(&wish.tag, &wish.new_tag).await,
                checks::new_tag,
            ),
            Self::DeleteTag => {
                Reply::from_result(client.delete_tag(&wish.tag).await, checks::nothing)
            }
            Self::AddTag => Reply::from_result(
                client.add_tag(&wish.server, &wish.new_tag).await,
                checks::tagged,
            ),
            Self::RemoveTag => Reply::from_result(
                client.remove_tag(&wish.server, &wish.used_tag).await,
                checks::untagged,
            ),
            Self::QuotaUsage => Reply::from_result(client.quota_usage().await, checks::quotas),
            Self::Usage => {
                let (first, last) = wish.days;
                let usage = client.usage(Some(first), Some(last)).await;
                Reply::from_result(usage, checks::usage)
            }
            Self::CapacityCommits => {
                Reply::from_result(client.capacity_commits().await, checks::commits)
            }
            Self::Hosts => {
                let hosts = client.hosts(wish.labels, &HostCursor::Range(page)).await;
                Reply::from_result(hosts, checks::hosts)
            }
            Self::Host => Reply::from_result(client.host(wish.host).await, checks::host),
            Self::StartHost => {
                Reply::from_result(client.start_host(wish.host).await, checks::acted)
            }
            Self::StopHost => Reply::from_result(client.stop_host(wish.host).await, checks::acted),
            Self::RestartHost => {
                Reply::from_result(client.restart_host(wish.host).await, checks::acted)
            }
            Self::InstallHost => Reply::from_result(
                client.install_host(wish.host, &wish.install).await,
                checks::nothing,
            ),
            Self::InstallLog => Reply::from_result(
                client.install_log(wish.host, page, &[]).await,
                checks::install_log,
            ),
            Self::OperatingSystems => {
                Reply::from_result(client.operating_systems().await, checks::systems)
            }
            Self::SshKeys => Reply::from_result(client.ssh_keys().await, checks::ssh_keys),
            Self::CreateSshKey => Reply::from_result(
                client.create_ssh_key("you", wish.public_key).await,
                checks::stored_key,
            ),
            Self::SshKey => {
                Reply::from_result(client.ssh_key(&wish.ssh_key).await, checks::ssh_key)
            }
            Self::DeleteSshKey => {
                Reply::from_result(client.delete_ssh_key(&wish.ssh_key).await, checks::nothing)
            }
            Self::Health => Reply::from_result(client.health().await, checks::health),
        }
    }
}
