//! Changes whose answer is lost: one request each, and the error does not
//! claim that nothing was done.

use super::wire_server::{Reply, WireServer, http};
use super::{UUID, base_url, id, key};
use crate::command::PowerCommand;
use crate::host::HostInstall;
use crate::server::{Reinstall, SystemFamily};
use crate::whitelist::{AddressRange, WhitelistRule};
use crate::{ApiKeyId, Client, ClientOptions, Error, HostId, SecretText, SshKeyId};

fn host_install() -> HostInstall {
    let mut install = HostInstall::new(1, SystemFamily::Linux);
    install.ssh_key = SshKeyId::parse(UUID).ok();
    install
}

/// Makes every change that is not tried elsewhere.
async fn change_all(client: &Client) -> Vec<(&'static str, Result<(), Error>)> {
    let password = SecretText::new("a new password");
    let ssh_key = SshKeyId::parse(UUID).unwrap();
    let rule = WhitelistRule {
        range: AddressRange::Net("192.0.2.0/24".parse().unwrap()),
        comments: None,
        active: true,
    };
    let (api_key, host) = (ApiKeyId(1), HostId(1));
    let reinstall = Reinstall::default();
    let command = client.send_command(&id(), PowerCommand::Reboot).await;
    let key = client.create_ssh_key("n", "ssh-ed25519 AAAA").await;
    vec![
        (
            "PATCH /v3/flexMetal/servers/",
            client.reinstall(&id(), &reinstall).await.map(drop),
        ),
        (
            "POST /v3/host/1/os/install ",
            client.install_host(host, &host_install()).await,
        ),
        (
            "PUT /v3/host/1/restart ",
            client.restart_host(host).await.map(drop),
        ),
        ("POST /v3/flexMetal/servers/", command.map(drop)),
        ("POST /v3/sshKey ", key.map(drop)),
        ("DELETE /v3/sshKey/", client.delete_ssh_key(&ssh_key).await),
        (
            "PUT /v3/account/password ",
            client.change_password(&password, &password).await,
        ),
        (
            "POST /v3/account/apiKey/1/whitelist ",
            client.add_to_whitelist(api_key, &rule).await.map(drop),
        ),
        (
            "PUT /v3/flexMetal/tags/a ",
            client.rename_tag("a", "b").await.map(drop),
        ),
    ]
}

#[tokio::test]
async fn a_change_without_a_whole_answer_is_one_request() {
    let half = http(200, "[]");
    let half = half[..half.len() - 1].to_vec();
    for reply in [Reply::Close, Reply::Reset, Reply::SendAndClose(half)] {
        let server = WireServer::start(vec![reply]).await;
        let client = Client::new(ClientOptions::new(base_url(&server.url()), key())).unwrap();
        let changes = change_all(&client).await;
        let requests = server.requests();
        assert_eq!(requests.len(), changes.len(), "{requests:?}");
        assert_eq!(server.connections(), changes.len());
        for (begin, result) in changes {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Interrupted(_)), "{begin}: {error:?}");
            assert!(error.may_have_taken_effect());
            let sent = requests.iter().filter(|sent| sent.starts_with(begin));
            assert_eq!(sent.count(), 1, "{begin}");
        }
    }
}
