//! Every operation that takes a body, on both ports.

/// Which of the two ports an operation is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Api,
    Control,
}

/// One operation. `{…}` in its path stands for a resource of the fixture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Its folder in the corpus.
    pub(crate) name: &'static str,
    pub(crate) port: Port,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
}

const fn api(name: &'static str, method: &'static str, path: &'static str) -> Operation {
    Operation {
        name,
        port: Port::Api,
        method,
        path,
    }
}

const fn control(name: &'static str, method: &'static str, path: &'static str) -> Operation {
    Operation {
        name,
        port: Port::Control,
        method,
        path,
    }
}

/// All of them.
pub(crate) const ALL: [Operation; 22] = [
    api("order", "POST", "/v3/flexMetal/servers"),
    api("reinstall", "PATCH", "/v3/flexMetal/servers/{server}"),
    api("command", "POST", "/v3/flexMetal/servers/{server}/commands"),
    api("tag-create", "POST", "/v3/flexMetal/tags"),
    api("tag-rename", "PUT", "/v3/flexMetal/tags/here"),
    api("password-change", "PUT", "/v3/account/password"),
    api("password-reset", "POST", "/v3/account/password/reset"),
    api(
        "password-validate",
        "PUT",
        "/v3/account/password/reset/validate",
    ),
    // Of the second key, so that no entry can lock the test itself out.
    api("whitelist-add", "POST", "/v3/account/apiKey/2/whitelist"),
    api(
        "whitelist-change",
        "PUT",
        "/v3/account/apiKey/2/whitelist/{entry}",
    ),
    api("ssh-key", "POST", "/v3/sshKey"),
    api("host-install", "POST", "/v3/host/1001/os/install"),
    control("faults", "POST", "/_simulator/faults"),
    control("switches", "POST", "/_simulator/switches"),
    control("settings", "POST", "/_simulator/settings"),
    control("clock", "POST", "/_simulator/clock"),
    control("quota", "POST", "/_simulator/quota"),
    control("availability", "POST", "/_simulator/availability"),
    control("keys", "POST", "/_simulator/keys"),
    control("accounts", "POST", "/_simulator/accounts"),
    control("machines", "POST", "/_simulator/machines"),
    control("alteration", "PATCH", "/_simulator/machines/{server}"),
];

/// Everything that can be read without a body.
pub(crate) const QUESTIONS: [(Port, &str); 35] = [
    (Port::Api, "/v3/flexMetal/servers"),
    (Port::Api, "/v3/flexMetal/servers?status=delivered&tag=t"),
    (Port::Api, "/v3/flexMetal/servers/{server}"),
    (Port::Api, "/v3/flexMetal/servers/{server}/lshw"),
    (Port::Api, "/v3/flexMetal/servers/{server}/rootPassword"),
    (Port::Api, "/v3/flexMetal/servers/{server}/commands"),
    (Port::Api, "/v3/flexMetal/tags"),
    (Port::Api, "/v3/flexMetal/tags/t"),
    (Port::Api, "/v3/flexMetal/location"),
    (Port::Api, "/v3/flexMetal/location/6/instanceTypes"),
    (Port::Api, "/v3/flexMetal/plans"),
    (Port::Api, "/v3/flexMetal/quota/usage"),
    (Port::Api, "/v3/flexMetal/usage"),
    (
        Port::Api,
        "/v3/flexMetal/usage?startDate=1970-01-01&endDate=9999-12-31",
    ),
    (Port::Api, "/v3/flexMetal/usage?startDate=9999-12-31"),
    (Port::Api, "/v3/flexMetal/capacity/commit"),
    (Port::Api, "/v3/account/apiKey/2/whitelist"),
    (Port::Api, "/v3/host"),
    (Port::Api, "/v3/host/1001"),
    (Port::Api, "/v3/host/1001/os/installLog"),
    (Port::Api, "/v3/operatingsystem"),
    (Port::Api, "/v3/sshKey"),
    (Port::Api, "/v3/health"),
    (Port::Control, "/_simulator/"),
    (Port::Control, "/_simulator/clock"),
    (Port::Control, "/_simulator/ledger/counts"),
    (Port::Control, "/_simulator/machines"),
    (Port::Control, "/_simulator/machines/{server}"),
    (Port::Control, "/_simulator/faults"),
    (Port::Control, "/_simulator/switches"),
    (Port::Control, "/_simulator/settings"),
    (Port::Control, "/_simulator/keys"),
    (Port::Control, "/_simulator/accounts"),
    (Port::Control, "/_simulator/paying"),
    (Port::Control, "/_simulator/invariants"),
];
