//! The flags of the control plane's programs.

use std::path::Path;

use crate::credentials::CredentialFiles;

/// The controllers that need neither nodes nor a cloud.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
    serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";

/// An etcd with one member that need not survive a power failure.
pub(crate) fn etcd(data: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        path("data-dir", data),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Most of the time of a write is the wait for the disk.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// An API server with RBAC that creates its own serving certificate.
pub(crate) fn api_server(
    credentials: &CredentialFiles,
    audit_log: Option<&Path>,
    etcd_port: u16,
    port: u16,
) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        path("cert-dir", &credentials.certificate_folder()),
        path("token-auth-file", &credentials.token_file()),
        "--authorization-mode=RBAC".to_owned(),
        "--anonymous-auth=false".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        path(
            "service-account-key-file",
            &credentials.service_account_public_key(),
        ),
        path(
            "service-account-signing-key-file",
            &credentials.service_account_key(),
        ),
        // Only one API server exists, so it need not reconcile the endpoints of `kubernetes`.
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    if let Some(audit_log) = audit_log {
        flags.push(path("audit-policy-file", &credentials.audit_policy()));
        flags.push(path("audit-log-path", audit_log));
        // In megabytes: large enough to keep all lines in one file, so that they can be counted.
        flags.push("--audit-log-maxsize=16384".to_owned());
    }
    flags
}

/// The controllers that tests and demo need, fast enough for many namespaces.
pub(crate) fn controller_manager(credentials: &CredentialFiles) -> Vec<String> {
    vec![
        path("kubeconfig", &credentials.controller_manager_kubeconfig()),
        path(
            "service-account-private-key-file",
            &credentials.service_account_key(),
        ),
        path("root-ca-file", &credentials.certificate_authority()),
        format!("--controllers={CONTROLLERS}"),
        "--leader-elect=false".to_owned(),
        // No health port, which would need another free port.
        "--secure-port=0".to_owned(),
        // Each test creates and deletes namespaces. The default of 20 requests per second is too slow.
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        "--concurrent-namespace-syncs=20".to_owned(),
    ]
}

fn path(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
