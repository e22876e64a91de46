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
    /// Makes the call with the arguments of the scene.
    pub(crate) async fn call(self, scene: &Scene) -> Reply {
        self.call_with(&scene.client, scene).await
    }

    /// The same with another client.
    #[allow(clippy::too_many_lines, reason = "one line or two for each operation")]
    pub(crate) async fn call_with(self, client: &Client, scene: &Scene) -> Reply {
        let arguments = &scene.arguments;
        let page = Page::first();
        match self {
            Self::Whitelist => Reply::from_result(
                client.whitelist(arguments.api_key, page).await,
                checks::whitelist,
            ),
            Self::AddToWhitelist => Reply::from_result(
                client
                    .add_to_whitelist(arguments.api_key, &arguments.rule)
                    .await,
                checks::added_entry,
            ),
            Self::ChangeWhitelist => {
                let rule = &arguments.rule;
                let changed = client.change_whitelist(arguments.api_key, arguments.entry, rule);
                Reply::from_result(changed.await, checks::changed_entry)
            }
            Self::RemoveFromWhitelist => {
                let removed = client.remove_from_whitelist(arguments.api_key, arguments.entry);
                Reply::from_result(removed.await, checks::nothing)
            }
            Self::ChangePassword => {
                let changed = client.change_password(&arguments.password, &arguments.new_password);
                Reply::from_result(changed.await, checks::nothing)
            }
            Self::ResetPassword => Reply::from_result(
                client.reset_password(arguments.email).await,
                checks::nothing,
            ),
            Self::ValidateReset => {
                let ended =
                    client.validate_password_reset(&arguments.new_password, &arguments.reset_hash);
                Reply::from_result(ended.await, checks::nothing)
            }
            Self::Locations => Reply::from_result(client.locations().await, checks::locations),
            Self::InstanceTypes => {
                let types = client.instance_types(arguments.location).await;
                Reply::from_result(types, checks::instance_types)
            }
            Self::Plans => Reply::from_result(client.plans().await, checks::plans),
            Self::Servers => {
                let filter = ServerFilter {
                    status: arguments.status,
                    tags: arguments.tags.clone(),
                };
                Reply::from_result(client.servers(&filter, page).await, checks::servers)
            }
            Self::Order => Reply::of_order(
                client.order(&arguments.order, ORDER_TAG).await,
                checks::created,
            ),
            Self::Server => {
                Reply::from_result(client.server(&arguments.server).await, checks::server)
            }
            Self::Reinstall => Reply::from_result(
                client
                    .reinstall(&arguments.server, &arguments.reinstall)
                    .await,
                checks::server,
            ),
            Self::Release => {
                Reply::from_result(client.release(&arguments.server).await, checks::releasing)
            }
            Self::HardwareListing => Reply::from_result(
                client.hardware_listing(&arguments.server).await,
                checks::hardware,
            ),
            Self::RootPassword => {
                let password = client.root_password(&arguments.windows).await;
                Reply::from_result(password.map(Kept), checks::root_password)
            }
            Self::Commands => Reply::from_result(
                client.commands(&arguments.server, None, page).await,
                checks::commands,
            ),
            Self::SendCommand => {
                let sent = client.send_command(&arguments.server, PowerCommand::PowerOff);
                Reply::from_result(sent.await, checks::sent_command)
            }
            Self::Command => Reply::from_result(
                client.command(&arguments.server, &arguments.command).await,
                checks::command,
            ),
            Self::Tags => Reply::from_result(client.tags(page).await, checks::tags),
            Self::CreateTag => {
                Reply::from_result(client.create_tag(&arguments.new_tag).await, checks::new_tag)
            }
            Self::Tag => Reply::from_result(client.tag(&arguments.tag).await, checks::spare_tag),
            Self::RenameTag => Reply::from_result(
                client.rename_tag(&arguments.tag, &arguments.new_tag).await,
                checks::new_tag,
            ),
            Self::DeleteTag => {
                Reply::from_result(client.delete_tag(&arguments.tag).await, checks::nothing)
            }
            Self::AddTag => Reply::from_result(
                client.add_tag(&arguments.server, &arguments.new_tag).await,
                checks::tagged,
            ),
            Self::RemoveTag => Reply::from_result(
                client
                    .remove_tag(&arguments.server, &arguments.used_tag)
                    .await,
                checks::untagged,
            ),
            Self::QuotaUsage => Reply::from_result(client.quota_usage().await, checks::quotas),
            Self::Usage => {
                let (first, last) = arguments.days;
                let usage = client.usage(Some(first), Some(last)).await;
                Reply::from_result(usage, checks::usage)
            }
            Self::CapacityCommits => {
                Reply::from_result(client.capacity_commits().await, checks::commits)
            }
            Self::Hosts => {
                let hosts = client
                    .hosts(arguments.labels, &HostCursor::Range(page))
                    .await;
                Reply::from_result(hosts, checks::hosts)
            }
            Self::Host => Reply::from_result(client.host(arguments.host).await, checks::host),
            Self::StartHost => {
                Reply::from_result(client.start_host(arguments.host).await, checks::acted)
            }
            Self::StopHost => {
                Reply::from_result(client.stop_host(arguments.host).await, checks::acted)
            }
            Self::RestartHost => {
                Reply::from_result(client.restart_host(arguments.host).await, checks::acted)
            }
            Self::InstallHost => Reply::from_result(
                client
                    .install_host(arguments.host, &arguments.install)
                    .await,
                checks::nothing,
            ),
            Self::InstallLog => Reply::from_result(
                client.install_log(arguments.host, page, &[]).await,
                checks::install_log,
            ),
            Self::OperatingSystems => {
                Reply::from_result(client.operating_systems().await, checks::systems)
            }
            Self::SshKeys => Reply::from_result(client.ssh_keys().await, checks::ssh_keys),
            Self::CreateSshKey => Reply::from_result(
                client.create_ssh_key("you", arguments.public_key).await,
                checks::stored_key,
            ),
            Self::SshKey => {
                Reply::from_result(client.ssh_key(&arguments.ssh_key).await, checks::ssh_key)
            }
            Self::DeleteSshKey => Reply::from_result(
                client.delete_ssh_key(&arguments.ssh_key).await,
                checks::nothing,
            ),
            Self::Health => Reply::from_result(client.health().await, checks::health),
        }
    }
}
