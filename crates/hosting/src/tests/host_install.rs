//! What dedicated hosts may be installed with.

use super::UUID;
use hosting_types::{
    SecretText, SshKeyId,
    host::{HostInstall, InstallForm, InstallKeyNeeded, InstallParam, KernelParamsForm},
    request::InvalidRequest,
    server::SystemFamily,
};

fn param(key: &str, value: &str) -> InstallParam {
    super::install::param(key, value).into()
}

fn host_install() -> HostInstall {
    let mut install = HostInstall::new(17, SystemFamily::Linux);
    install.ssh_key = Some(SshKeyId::parse(UUID).unwrap());
    install
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
    // It would be unclear which of the two counts.
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
    // Each point of the form is chosen separately.
    let linux_alone = InstallForm {
        key_needed: InstallKeyNeeded::Linux,
        ..InstallForm::default()
    };
    assert_eq!(keyless(linux_alone, linux), missing("sshKeyId"));
    assert_eq!(keyless(linux_alone, windows), Ok(()));
    assert_eq!(
        check(&|install| install.kernel_params = vec![param("a", "b c")]),
        Err(InvalidRequest::KernelText { index: 0 })
    );
    let array = |install: &mut HostInstall| {
        install.form.kernel_params = KernelParamsForm::Array;
        install.kernel_params = vec![param("a", "b c")];
    };
    assert_eq!(check(&array), Ok(()));
}

#[test]
fn host_install_checks_name_and_script() {
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
