//! Every operation of the client by its name, with arguments that fit the stored answers.

use super::{ORDER_TAG, UUID, id, order};
use crate::{Client, page::HostCursor};
use hosting_types::{
    ApiKeyId, CommandId, Error, HostId, LocationId, OrderResult, Page, SecretText, ServerFilter,
    SshKeyId, WhitelistEntryId,
    command::PowerCommand,
    host::HostInstall,
    server::{Reinstall, SystemFamily},
    whitelist::{AddressRange, WhitelistRule},
};

/// All operations.
pub(super) const NAMES: [&str; 43] = [
    "add_tag",
    "add_to_whitelist",
    "capacity_commits",
    "change_password",
    "change_whitelist",
    "command",
    "commands",
    "create_ssh_key",
    "create_tag",
    "delete_ssh_key",
    "delete_tag",
    "hardware_listing",
    "health",
    "host",
    "hosts",
    "install_host",
    "install_log",
    "instance_types",
    "locations",
    "operating_systems",
    "order",
    "plans",
    "quota_usage",
    "reinstall",
    "release",
    "remove_from_whitelist",
    "remove_tag",
    "rename_tag",
    "reset_password",
    "restart_host",
    "root_password",
    "send_command",
    "server",
    "servers",
    "ssh_key",
    "ssh_keys",
    "start_host",
    "stop_host",
    "tag",
    "tags",
    "usage",
    "validate_password_reset",
    "whitelist",
];

/// How a call ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// `Decoded`, `Unknown` for an order, or the category of the error.
    pub(super) word: &'static str,
    /// All texts of the error.
    pub(super) text: String,
}

fn describe_result<T>(result: Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome {
            word: "Decoded",
            text: String::new(),
        },
        Err(error) => Outcome {
            word: error.category(),
            text: error.explain(),
        },
    }
}

fn ordered(outcome: OrderResult) -> Outcome {
    match outcome {
        OrderResult::Created(server) => {
            assert!(server.has_tag(ORDER_TAG));
            describe_result(Ok(()))
        }
        OrderResult::NotSent(error) | OrderResult::Refused(error) => {
            describe_result::<()>(Err(error))
        }
        OrderResult::Unknown(text) => Outcome {
            word: "Unknown",
            text,
        },
    }
}

/// Makes one call.
pub(super) async fn call(client: &Client, name: &str) -> Outcome {
    let (id, page, host, key) = (id(), Page::first(), HostId(1001), ApiKeyId(1));
    let ssh_key = SshKeyId::parse(UUID).unwrap();
    let command = CommandId::parse(UUID).unwrap();
    let secret = SecretText::new("a-password");
    let entry = WhitelistEntryId(1);
    let rule = WhitelistRule {
        range: AddressRange::Net("127.0.0.0/8".parse().unwrap()),
        comments: None,
        active: true,
    };
    match name {
        "add_tag" => describe_result(client.add_tag(&id, "a").await),
        "add_to_whitelist" => describe_result(client.add_to_whitelist(key, &rule).await),
        "capacity_commits" => describe_result(client.capacity_commits().await),
        "change_password" => describe_result(client.change_password(&secret, &secret).await),
        "change_whitelist" => describe_result(client.change_whitelist(key, entry, &rule).await),
        "command" => describe_result(client.command(&id, &command).await),
        "commands" => describe_result(client.commands(&id, None, page).await),
        "create_ssh_key" => describe_result(
            client
                .create_ssh_key("me", "ssh-ed25519 AAAA me@here")
                .await,
        ),
        "create_tag" => describe_result(client.create_tag("b").await),
        "delete_ssh_key" => describe_result(client.delete_ssh_key(&ssh_key).await),
        "delete_tag" => describe_result(client.delete_tag("a").await),
        "hardware_listing" => describe_result(client.hardware_listing(&id).await),
        "health" => describe_result(client.health().await),
        "host" => describe_result(client.host(host).await),
        "hosts" => describe_result(client.hosts(None, &HostCursor::Range(page)).await),
        "install_host" => {
            let mut install = HostInstall::new(104, SystemFamily::Linux);
            install.ssh_key = Some(ssh_key);
            describe_result(client.install_host(host, &install).await)
        }
        "install_log" => describe_result(client.install_log(host, page, &[]).await),
        "instance_types" => describe_result(client.instance_types(LocationId(6)).await),
        "locations" => describe_result(client.locations().await),
        "operating_systems" => describe_result(client.operating_systems().await),
        "order" => ordered(client.order(&order(), ORDER_TAG).await),
        "plans" => describe_result(client.plans().await),
        "quota_usage" => describe_result(client.quota_usage().await),
        "reinstall" => describe_result(client.reinstall(&id, &Reinstall::default()).await),
        "release" => describe_result(client.release(&id).await),
        "remove_from_whitelist" => describe_result(client.remove_from_whitelist(key, entry).await),
        "remove_tag" => describe_result(client.remove_tag(&id, "a").await),
        "rename_tag" => describe_result(client.rename_tag("c", "a").await),
        "reset_password" => describe_result(client.reset_password("owner@example.com").await),
        "restart_host" => describe_result(client.restart_host(host).await),
        "root_password" => describe_result(client.root_password(&id).await),
        "send_command" => describe_result(client.send_command(&id, PowerCommand::Reboot).await),
        "server" => describe_result(client.server(&id).await),
        "servers" => describe_result(client.servers(&ServerFilter::default(), page).await),
        "ssh_key" => describe_result(client.ssh_key(&ssh_key).await),
        "ssh_keys" => describe_result(client.ssh_keys().await),
        "start_host" => describe_result(client.start_host(host).await),
        "stop_host" => describe_result(client.stop_host(host).await),
        "tag" => describe_result(client.tag("a").await),
        "tags" => describe_result(client.tags(page).await),
        "usage" => describe_result(client.usage(None, None).await),
        "validate_password_reset" => {
            describe_result(client.validate_password_reset(&secret, &secret).await)
        }
        "whitelist" => describe_result(client.whitelist(key, page).await),
        other => panic!("no such operation: {other}"),
    }
}
