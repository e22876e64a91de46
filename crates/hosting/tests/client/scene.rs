//! An account in which every operation succeeds, and the arguments of the calls.

use std::time::Duration;

use hosting::Client;
use hosting_types::{
    ApiKeyId, CommandId, HostId, LocationId, Order, SecretText, ServerId, SshKeyId, StatusFilter,
    WhitelistEntryId,
    command::PowerCommand,
    host::{HostInstall, InstallParam},
    server::{
        KernelParam, Partition, PartitionSize, Reinstall, SystemChoice, SystemFamily, UserData,
    },
    whitelist::{AddressRange, WhitelistRule},
};
use jiff::civil::{Date, date};
use serde_json::json;

use crate::{
    canaries::{self, KERNEL_VALUE, KEY, NEW_PASSWORD, OLD_PASSWORD, SCRIPT, USER_DATA},
    rig::{EMAIL, KIND, LOCATION, Rig},
};

pub(crate) const ORDER_TAG: &str = "fmo-order:0123456789abcdef0123456700000001";
pub(crate) const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me@here";
/// A tag that servers have.
pub(crate) const USED: &str = "team:web";
/// A tag that no server has.
pub(crate) const SPARE: &str = "spare";
/// Debian in the catalogue.
pub(crate) const DEBIAN: u64 = 104;
/// The first host of the catalogue that is an on-demand server.
pub(crate) const ON_DEMAND_HOST: HostId = HostId(100_001);
/// The age of a scene when its calls begin, in virtual seconds.
pub(crate) const AGE: u64 = 900;

/// The arguments of the calls. Each can be changed into one that the API refuses.
pub(crate) struct CallArguments {
    pub(crate) api_key: ApiKeyId,
    pub(crate) entry: WhitelistEntryId,
    pub(crate) rule: WhitelistRule,
    pub(crate) password: SecretText,
    pub(crate) new_password: SecretText,
    pub(crate) reset_hash: SecretText,
    pub(crate) email: &'static str,
    pub(crate) location: LocationId,
    pub(crate) status: Option<StatusFilter>,
    /// The tags of the listed servers.
    pub(crate) tags: Vec<String>,
    /// The days of the requested usage.
    pub(crate) days: (Date, Date),
    pub(crate) order: Order,
    /// A delivered Linux server.
    pub(crate) server: ServerId,
    /// A delivered Windows server.
    pub(crate) windows: ServerId,
    pub(crate) reinstall: Reinstall,
    pub(crate) command: CommandId,
    /// A tag to look up, rename or delete.
    pub(crate) tag: String,
    /// A tag to create, or to rename to.
    pub(crate) new_tag: String,
    /// A tag to remove from the server.
    pub(crate) used_tag: String,
    /// Which hosts are listed.
    pub(crate) labels: Option<&'static str>,
    pub(crate) host: HostId,
    pub(crate) install: HostInstall,
    pub(crate) ssh_key: SshKeyId,
    pub(crate) public_key: &'static str,
}

pub(crate) struct Scene {
    pub(crate) rig: Rig,
    /// The client under test.
    pub(crate) client: Client,
    pub(crate) arguments: CallArguments,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::on(Rig::start().await).await
    }

    /// Sets up a fresh simulator.
    pub(crate) async fn on(rig: Rig) -> Self {
        let client = rig.client(KEY, Duration::from_secs(30));
        let mut servers = Vec::new();
        for (name, os) in [("web-1", "ubuntu-2404-lts"), ("win-1", "windows-2022")] {
            let body = json!({"name": name, "os": os, "tags": [USED]});
            let server = rig.steer("machines", body).await;
            servers.push(ServerId::parse(server["uuid"].as_str().unwrap()).unwrap());
        }
        let windows = servers.pop().unwrap();
        let server = servers.pop().unwrap();
        let command = client.send_command(&server, PowerCommand::Reboot).await;
        client.create_tag(SPARE).await.unwrap();
        let ssh_key = client.create_ssh_key("me", PUBLIC_KEY).await.unwrap().id;
        let api_key = ApiKeyId(1);
        let mut rule = rule("127.0.0.0/8");
        let entries = client.add_to_whitelist(api_key, &rule).await.unwrap();
        rule.comments = Some("the loopback".to_owned());
        let install = install(&ssh_key);
        client.install_host(HostId(1001), &install).await.unwrap();
        client.reset_password(EMAIL).await.unwrap();
        let accounts = rig.get_json("accounts").await;
        let reset_hash = accounts[0]["resetHash"].as_str().unwrap().to_owned();
        canaries::remember(&reset_hash);
        rig.advance(AGE).await;
        let wishes = CallArguments {
            api_key,
            entry: entries[0].id,
            rule,
            password: SecretText::new(OLD_PASSWORD),
            new_password: SecretText::new(NEW_PASSWORD),
            reset_hash: SecretText::new(reset_hash),
            email: EMAIL,
            location: LocationId(6),
            status: None,
            tags: Vec::new(),
            days: (date(2023, 11, 1), date(2023, 11, 30)),
            order: order(),
            server,
            windows,
            reinstall: reinstall(),
            command: command.unwrap().id,
            tag: SPARE.to_owned(),
            new_tag: "fresh".to_owned(),
            used_tag: USED.to_owned(),
            labels: None,
            host: HostId(1001),
            install,
            ssh_key,
            public_key: PUBLIC_KEY,
        };
        Self {
            rig,
            client,
            arguments: wishes,
        }
    }
}

pub(crate) fn rule(net: &str) -> WhitelistRule {
    WhitelistRule {
        range: AddressRange::Net(net.parse().unwrap()),
        comments: None,
        active: true,
    }
}

fn kernel_param() -> KernelParam {
    KernelParam {
        key: "siderolink.api".to_owned(),
        value: SecretText::new(KERNEL_VALUE),
    }
}

fn user_data() -> UserData {
    UserData {
        data: SecretText::new(USER_DATA),
        is_base64: false,
    }
}

/// An order with every field that one can have.
fn order() -> Order {
    Order {
        name: "node-1".to_owned(),
        location: LOCATION.to_owned(),
        instance_type: KIND.to_owned(),
        os: SystemChoice {
            kernel_params: vec![kernel_param()],
            partitions: vec![Partition {
                target: "/".to_owned(),
                filesystem: "ext4".to_owned(),
                size: PartitionSize::Rest,
            }],
            ..SystemChoice::of_slug("debian-13")
        },
        ssh_keys: vec![PUBLIC_KEY.to_owned()],
        tags: vec![USED.to_owned(), ORDER_TAG.to_owned()],
        contract_id: Some(crate::rig::CONTRACT.to_owned()),
        overflow: true,
        post_install_script: Some(SecretText::new(SCRIPT)),
        user_data: Some(user_data()),
    }
}

fn reinstall() -> Reinstall {
    Reinstall {
        name: Some("web-2".to_owned()),
        ssh_keys: Some(vec![PUBLIC_KEY.to_owned()]),
        post_install_script: Some(SecretText::new(SCRIPT)),
        os: Some(SystemChoice {
            kernel_params: vec![kernel_param()],
            ..SystemChoice::of_slug("debian-13")
        }),
        user_data: Some(user_data()),
        ..Reinstall::default()
    }
}

fn install(ssh_key: &SshKeyId) -> HostInstall {
    let mut install = HostInstall::new(DEBIAN, SystemFamily::Linux);
    install.hostname = Some("metal-1".to_owned());
    install.ssh_key = Some(ssh_key.clone());
    install.post_install_script = Some(SecretText::new(SCRIPT));
    install.kernel_params = vec![kernel_param().into(), InstallParam::bare("quiet")];
    install
}
