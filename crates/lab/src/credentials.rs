//! The credentials of the API server and its clients (keys, tokens, kubeconfigs) and the audit policy, as files in one
//! folder.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use uuid::Uuid;

/// Logs each write once after its response, without bodies: user, object and response code. Reads would be too many.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
"#;

/// The files, in one folder and readable only by us.
pub(crate) struct CredentialFiles {
    folder: PathBuf,
    admin_token: String,
    controller_manager_token: String,
}

/// A client for a kubeconfig of the lab. It uses no proxy, because the API server is on this computer.
pub(crate) async fn client(kubeconfig: Kubeconfig) -> Result<Client, kube::Error> {
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    config.proxy_url = None;
    Client::try_from(config)
}

/// Why the credentials could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error("cannot make a key for service account tokens")]
    Key(#[from] rcgen::Error),
    #[error("cannot write the credentials of the control plane")]
    Write(#[from] io::Error),
}

impl CredentialFiles {
    /// Creates new files in `folder`, which must exist.
    pub(crate) fn create(folder: &Path) -> Result<Self, CredentialsError> {
        // Each half has 122 random bits of the operating system.
        let token = || format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let this = Self {
            folder: folder.to_owned(),
            admin_token: token(),
            controller_manager_token: token(),
        };
        let key = rcgen::KeyPair::generate()?;
        write_private(&this.service_account_key(), &key.serialize_pem())?;
        write_private(&this.service_account_public_key(), &key.public_key_pem())?;
        // The controller manager is a separate user, so that the audit log distinguishes its writes.
        let tokens = format!(
            "{},admin,admin,\"system:masters\"\n{},system:kube-controller-manager,controller-manager,\"system:masters\"\n",
            this.admin_token, this.controller_manager_token
        );
        write_private(&this.token_file(), &tokens)?;
        write_private(&this.audit_policy(), AUDIT_POLICY)?;
        Ok(this)
    }

    /// Writes the kubeconfigs for the API server's address.
    pub(crate) fn write_kubeconfigs(&self, server: &str) -> io::Result<()> {
        write_private(
            &self.kubeconfig(),
            &self.kubeconfig_for(server, "admin", &self.admin_token),
        )?;
        let name = "system:kube-controller-manager";
        let text = self.kubeconfig_for(server, name, &self.controller_manager_token);
        write_private(&self.controller_manager_kubeconfig(), &text)
    }

    // JSON is valid YAML and needs no quoting rules.
    fn kubeconfig_for(&self, server: &str, user: &str, token: &str) -> String {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "lab", "cluster": {
                "server": server, "certificate-authority": self.certificate_authority() } }],
            "users": [{ "name": user, "user": { "token": token } }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": user } }],
            "current-context": "lab",
        });
        format!("{config:#}\n")
    }

    /// The token of a member of `system:masters`.
    pub(crate) fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn controller_manager_kubeconfig(&self) -> PathBuf {
        self.folder.join("controller-manager.kubeconfig")
    }

    /// Signs service account tokens.
    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-account.key")
    }

    /// Checks service account tokens.
    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-account.pub")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    pub(crate) fn audit_policy(&self) -> PathBuf {
        self.folder.join("audit-policy.yaml")
    }

    /// Where the API server writes its self-created serving certificate.
    pub(crate) fn certificate_folder(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    /// The file with the serving certificate and its CA.
    pub(crate) fn certificate_authority(&self) -> PathBuf {
        self.certificate_folder().join("apiserver.crt")
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}
