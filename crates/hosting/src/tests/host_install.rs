//! The installation of dedicated hosts.

use serde_json::json;

use super::UUID;
use super::script::{body, line, sent};
use crate::host::{
    HostInstall, InstallForm, InstallKeyName, InstallKeyNeeded, InstallParam, KernelParamsForm,
};
use crate::request::InvalidRequest;
use crate::server::SystemFamily;
use crate::{HostId, SecretText, SshKeyId};

fn param(key: &str, value: &str) -> InstallParam {
    super::install::param(key, value).into()
}

fn host_install() -> HostInstall {
    let mut install = HostInstall::new(17, SystemFamily::Linux);
    install.ssh_key = Some(SshKeyId::parse(UUID).unwrap());
    install
}

#[tokio::test]
async fn a_host_is_installed_in_both_forms() {
    let mut install = host_install();
    install.hostname = Some("db-1.example.com".to_owned());
    install.kernel_params = vec![param("net.ifnames", "0"), InstallParam::bare("quiet")];
    install.post_install_script = Some(SecretText::new("#!/bin/bash\n"));
    install.quick_format = Some(false);
    let (request, result) = sent(200, "[]", async |client| {
        client.install_host(HostId(5), &install).await
    })
    .await;
    assert_eq!(line(&request), "POST /v3/host/5/os/install");
    assert_eq!(
        body(&request),
        json!({"hostname": "db-1.example.com",
            "os": {"id": 17, "kernelParams": "net.ifnames=0 quiet"},
            "postInstallScript": "#!/bin/bash\n", "sshKeyId": UUID, "quickFormat": false})
    );
    result.unwrap();

    install.form = InstallForm::OBSERVED;
    let (request, _) = sent(200, "[]", async |client| {
        client.install_host(HostId(5), &install).await
    })
    .await;
    let other = body(&request);
    assert_eq!(other["sshKeyUuid"], UUID);
    assert!(other.get("sshKeyId").is_none());
    assert_eq!(
        other["os"]["kernelParams"],
        json!([{"key": "net.ifnames", "value": "0"}, {"key": "quiet"}])
    );

    let (request, _) = sent(200, "[]", async |client| {
        client.install_host(HostId(5), &host_install()).await
    })
    .await;
    assert_eq!(body(&request), json!({"os": {"id": 17}, "sshKeyId": UUID}));
}

#[test]
fn the_rules_of_a_host_installation_hold() {
    let check = |change: &dyn Fn(&mut HostInstall)| {
        let mut install = host_install();
        change(&mut install);
        install.check()
    };
    let talos = |params: Vec<InstallParam>| {
        check(&|install| {
            install.family = SystemFamily::Talos;
            install.kernel_params = params.clone();
        })
    };
    let join = || param("siderolink.api", "grpc://join.example.com:8090?jointoken=t");
    talos(vec![join(), param("net.ifnames", "1")]).unwrap();
    talos(vec![param("factoryhash", "abc")]).unwrap();
    assert_eq!(talos(vec![]), Err(InvalidRequest::Image));
    // Names that mean nothing without a value.
    for (name, error) in [
        ("siderolink.api", InvalidRequest::Hub),
        ("factoryhash", InvalidRequest::Image),
    ] {
        assert_eq!(talos(vec![InstallParam::bare(name)]), Err(error));
    }
    for hub in ["join", "", "https://", "/join", "ftp://join.example.com"] {
        let wrong = talos(vec![param("siderolink.api", hub)]);
        assert_eq!(wrong, Err(InvalidRequest::Hub), "{hub}");
    }
    assert_eq!(
        talos(vec![param("factoryhash", "")]),
        Err(InvalidRequest::Image)
    );
    assert_eq!(
        talos(vec![join(), param("factoryhash", "abc")]),
        Err(InvalidRequest::Image)
    );
    // Nobody could say which of the two counts.
    assert_eq!(talos(vec![join(), join()]), Err(InvalidRequest::Image));
    assert_eq!(
        talos(vec![param("factoryhash", "abc"), param("a", "b")]),
        Err(InvalidRequest::FactoryParams)
    );

    let keyless = |form, family| {
        check(&|install| {
            install.ssh_key = None;
            install.form = form;
            install.family = family;
        })
    };
    let missing = |field| Err(InvalidRequest::InstallKey { field });
    let (windows, linux) = (SystemFamily::Windows, SystemFamily::Linux);
    assert_eq!(
        keyless(InstallForm::default(), windows),
        missing("sshKeyId")
    );
    assert_eq!(keyless(InstallForm::OBSERVED, windows), Ok(()));
    assert_eq!(keyless(InstallForm::OBSERVED, linux), missing("sshKeyUuid"));
    assert_eq!(
        check(&|install| install.kernel_params = vec![param("a", "b c")]),
        Err(InvalidRequest::KernelText { index: 0 })
    );
}

#[test]
fn a_host_needs_a_proper_name_and_a_script_a_system_that_runs_it() {
    let check = |family, name: &str, script: &str| {
        let mut install = host_install();
        install.family = family;
        install.hostname = Some(name.to_owned());
        install.post_install_script = Some(SecretText::new(script));
        if family == SystemFamily::Talos {
            install.kernel_params = vec![param("factoryhash", "abc")];
        }
        install.check()
    };
    let (linux, talos) = (SystemFamily::Linux, SystemFamily::Talos);
    assert_eq!(check(linux, "a_b", "true"), Ok(()));
    assert_eq!(
        check(talos, "a_b", "true"),
        Err(InvalidRequest::HostName { field: "hostname" })
    );
    assert_eq!(
        check(linux, " ", "true"),
        Err(InvalidRequest::Text { field: "hostname" })
    );
    assert_eq!(
        check(talos, "a-b", "true"),
        Err(InvalidRequest::ScriptUnused)
    );
    assert_eq!(check(linux, "a-b", " "), Err(InvalidRequest::Script));
}

#[tokio::test]
async fn each_point_of_the_form_is_chosen_for_itself() {
    let mut install = host_install();
    install.kernel_params = vec![param("quiet", "a b")];
    install.form = InstallForm {
        key_name: InstallKeyName::SshKeyUuid,
        ..InstallForm::default()
    };
    assert_eq!(
        install.check(),
        Err(InvalidRequest::KernelText { index: 0 })
    );
    install.form.kernel_params = KernelParamsForm::Array;
    let (request, _) = sent(200, "[]", async |client| {
        client.install_host(HostId(5), &install).await
    })
    .await;
    assert_eq!(
        body(&request),
        json!({"os": {"id": 17, "kernelParams": [{"key": "quiet", "value": "a b"}]},
            "sshKeyUuid": UUID})
    );

    install.form = InstallForm {
        key_needed: InstallKeyNeeded::Linux,
        ..InstallForm::default()
    };
    install.kernel_params.clear();
    install.ssh_key = None;
    let field = "sshKeyId";
    assert_eq!(install.check(), Err(InvalidRequest::InstallKey { field }));
    install.family = SystemFamily::Windows;
    assert_eq!(install.check(), Ok(()));
}
