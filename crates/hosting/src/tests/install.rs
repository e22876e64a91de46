//! What servers may be installed with.

use super::order;
use hosting_types::{
    Order, SecretText,
    request::InvalidRequest,
    server::{
        KernelParam, Partition, PartitionSize, Reinstall, SystemChoice, SystemFamily, UserData,
    },
};

pub(super) fn param(key: &str, value: &str) -> KernelParam {
    KernelParam {
        key: key.to_owned(),
        value: SecretText::new(value),
    }
}

fn partition(target: &str, size: PartitionSize) -> Partition {
    Partition {
        target: target.to_owned(),
        filesystem: "ext4".to_owned(),
        size,
    }
}

fn data(text: &str, is_base64: bool) -> Option<UserData> {
    Some(UserData {
        data: SecretText::new(text),
        is_base64,
    })
}

fn broken(change: impl FnOnce(&mut Order)) -> InvalidRequest {
    let mut order = order();
    change(&mut order);
    order.check().unwrap_err()
}

fn fine(change: impl FnOnce(&mut Order)) {
    let mut order = order();
    change(&mut order);
    order.check().unwrap();
}

#[test]
fn scripts_follow_the_rules_of_their_system() {
    let script = |slug: &'static str, text: &'static str| {
        move |order: &mut Order| {
            order.os.slug = slug.to_owned();
            order.post_install_script = Some(SecretText::new(text));
        }
    };
    fine(script("debian-13", "#!/bin/bash\n"));
    fine(script("windows-2022", "Write-Host 1"));
    assert_eq!(broken(script("debian-13", "true")), InvalidRequest::Shebang);
    assert_eq!(
        broken(script("debian-13", " #!/bin/sh")),
        InvalidRequest::Shebang
    );
    fine(script("debian-13", "#! /usr/bin/env python3\n"));
    for nobody_runs in [
        "#!",
        "#!\n/bin/sh",
        "#!/",
        "#!bin/sh\n",
        "#!/bin/sh\u{a0}\n",
        "#!/bin/sh\recho",
    ] {
        assert_eq!(
            broken(script("debian-13", nobody_runs)),
            InvalidRequest::Shebang,
            "{nobody_runs:?}"
        );
    }
    assert_eq!(broken(script("debian-13", " \n")), InvalidRequest::Script);
    assert_eq!(
        broken(script("debian-13", "#!/bin/sh\0")),
        InvalidRequest::Script
    );
    let talos = |order: &mut Order| {
        script("talos-omni-1110", "#!/bin/sh")(order);
        order.os.kernel_params = vec![param("siderolink.api", "https://hub")];
    };
    assert_eq!(broken(talos), InvalidRequest::ScriptUnused);
}

#[test]
fn shell_scripts_lose_bom_and_crlf() {
    let runnable = |family: SystemFamily, text: &str| {
        let script = family.runnable(&SecretText::new(text));
        script.expose().to_owned()
    };
    let foreign = "\u{feff}#!/bin/sh\r\necho 1\r\n";
    assert_eq!(
        runnable(SystemFamily::Linux, foreign),
        "#!/bin/sh\necho 1\n"
    );
    assert_eq!(runnable(SystemFamily::Windows, foreign), foreign);
    let referred_to = SecretText::referred_to(foreign);
    assert!(SystemFamily::Linux.runnable(&referred_to).is_referred_to());
}

#[test]
fn systems_are_checked() {
    assert_eq!(SystemFamily::of_slug("Windows-2022"), SystemFamily::Windows);
    assert_eq!(
        SystemFamily::of_slug("ubuntu-2404-lts"),
        SystemFamily::Linux
    );
    let ipxe = |slug: &'static str, url: Option<&'static str>| {
        move |order: &mut Order| {
            order.os.slug = slug.to_owned();
            order.os.ipxe_script_url = url.map(SecretText::new);
        }
    };
    assert_eq!(
        broken(ipxe("custom-ipxe", None)),
        InvalidRequest::IpxeMissing
    );
    assert_eq!(
        broken(ipxe("debian-13", Some("http://a/b"))),
        InvalidRequest::IpxeUnused
    );
    fine(ipxe("custom-ipxe", Some("tftp://a/b")));
    for url in ["", "a/b", "/a/b", "http://"] {
        assert_eq!(
            broken(ipxe("custom-ipxe", Some(url))),
            InvalidRequest::IpxeUrl,
            "{url}"
        );
    }
    let hub = |params: Vec<KernelParam>| {
        move |order: &mut Order| {
            order.os.slug = "talos-omni-1110".to_owned();
            order.os.kernel_params = params;
        }
    };
    for url in ["http://hub", "https://hub/", "grpc://hub:8090?jointoken=t"] {
        fine(hub(vec![param("siderolink.api", url)]));
    }
    assert_eq!(broken(hub(Vec::new())), InvalidRequest::Hub);
    for url in ["", "hub", "https://", "ftp://hub", "foo:bar"] {
        let params = vec![param("siderolink.api", url)];
        assert_eq!(broken(hub(params)), InvalidRequest::Hub, "{url}");
    }
    for (key, value) in [("", "v"), ("a b", "v"), ("a=b", "v"), ("a", "v\n")] {
        assert_eq!(
            broken(|order| order.os.kernel_params = vec![param("ok", ""), param(key, value)]),
            InvalidRequest::KernelParam { index: 1 }
        );
    }
    for (text, is_base64, rule) in [
        (" ", false, InvalidRequest::UserData),
        ("a", true, InvalidRequest::UserDataBase64),
        ("a===", true, InvalidRequest::UserDataBase64),
        ("a-b=", true, InvalidRequest::UserDataBase64),
        // As tools wrap it.
        ("YWJj\nYWJj", true, InvalidRequest::UserDataBase64),
    ] {
        assert_eq!(
            broken(|order| order.user_data = data(text, is_base64)),
            rule
        );
    }
    let hint = InvalidRequest::UserDataBase64.to_string();
    assert!(hint.contains("line breaks"), "{hint}");
    fine(|order| order.user_data = data("a-b=", false));
}

#[test]
fn partitions_are_checked() {
    let rest = || partition("/", PartitionSize::Rest);
    let with = |partitions: Vec<Partition>| broken(|order| order.os.partitions = partitions);
    let mut unnamed = rest();
    unnamed.target.clear();
    let mut unformatted = rest();
    unformatted.filesystem = "ext 4".to_owned();
    // The document names no words.
    fine(|order| {
        order.os.partitions = vec![rest()];
        order.os.partitions[0].filesystem = "zfs".to_owned();
    });
    for wrong in [
        unnamed,
        unformatted,
        partition("/", PartitionSize::Megabytes(0)),
    ] {
        assert_eq!(with(vec![wrong]), InvalidRequest::Partition { index: 0 });
    }
    assert_eq!(
        with(vec![rest(), rest()]),
        InvalidRequest::PartitionTwice { index: 1 }
    );
    assert_eq!(
        with(vec![rest(), partition("/data", PartitionSize::Rest)]),
        InvalidRequest::PartitionRest
    );
}

#[test]
fn reinstall_is_checked_by_known_fields() {
    let os = |slug: &str| Some(SystemChoice::of_slug(slug));
    let no_keys = Reinstall {
        os: os("debian-13"),
        ..Reinstall::default()
    };
    assert_eq!(no_keys.check(), Err(InvalidRequest::SshKeysNeeded));
    let windows = Reinstall {
        os: os("windows-2022"),
        ..Reinstall::default()
    };
    windows.check().unwrap();
    // The current system is not known here, so any script may fit.
    let script_alone = Reinstall {
        post_install_script: Some(SecretText::new("Write-Host 1")),
        ..Reinstall::default()
    };
    script_alone.check().unwrap();
    let name = Reinstall {
        name: Some("-".to_owned()),
        os: os("talos-omni-1110"),
        ..Reinstall::default()
    };
    // The current system is not known here either.
    let name_alone = Reinstall {
        name: name.name.clone(),
        ..Reinstall::default()
    };
    name_alone.check().unwrap();
    assert_eq!(
        name.check(),
        Err(InvalidRequest::HostName { field: "name" })
    );
}
