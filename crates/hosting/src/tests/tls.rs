//! Which servers the client trusts.

use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{ORDER_TAG, order, record, wire_server::http};
use crate::{Client, ClientError};
use hosting_types::{Error, OrderResult, error::NotSent};

fn certificate() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// A server with this certificate that answers every connection with one created server; returns its URL.
async fn tls_server(own: &CertifiedKey<KeyPair>) -> String {
    let secret = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], PrivateKeyDer::Pkcs8(secret))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Some tests want a handshake that the client gives up.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream
                .write_all(&http(200, &record().to_string()))
                .await
                .unwrap();
        }
    });
    format!("https://localhost:{port}")
}

async fn order_from(url: &str, ca_bundle: Option<String>) -> OrderResult {
    let mut options = super::options(url);
    options.ca_bundle = ca_bundle.map(String::into_bytes);
    let client = Client::new(options).unwrap();
    client.order(&order(), ORDER_TAG).await
}

#[tokio::test]
async fn given_private_root_is_trusted() {
    let own = certificate();
    let url = tls_server(&own).await;
    let outcome = order_from(&url, Some(own.cert.pem())).await;
    assert!(matches!(outcome, OrderResult::Created(_)), "{outcome:?}");
}

#[tokio::test]
async fn without_trust_nothing_is_sent() {
    let own = certificate();
    let url = tls_server(&own).await;
    let outcome = order_from(&url, Some(certificate().cert.pem())).await;
    assert!(
        matches!(
            outcome,
            OrderResult::NotSent(Error::NotSent(NotSent::Connect(_)))
        ),
        "{outcome:?}"
    );
}

/// The URL of the server for the child process below.
const URL: &str = "FLEXMETAL_TEST_TLS_URL";

#[tokio::test]
async fn bundle_extends_the_system_roots() {
    let own = certificate();
    let url = tls_server(&own).await;
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, own.cert.pem()).unwrap();
    // The roots of the system are fixed per process, so a child process tests them.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--ignored", "--exact"])
        .arg("tests::tls::order_with_bundle_trusts_system_roots")
        .env("SSL_CERT_FILE", &roots)
        .env_remove("SSL_CERT_DIR")
        .env(URL, url);
    let output = tokio::task::spawn_blocking(move || child.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test]
#[ignore = "bundle_extends_the_system_roots runs it in a process of its own"]
async fn order_with_bundle_trusts_system_roots() {
    // If it runs among all ignored tests, it has nothing to do.
    let Ok(url) = std::env::var(URL) else { return };
    let outcome = order_from(&url, Some(certificate().cert.pem())).await;
    assert!(matches!(outcome, OrderResult::Created(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_server_without_tls_gets_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        stream.read_buf(&mut received).await.unwrap();
        stream.write_all(&http(400, "no tls here")).await.unwrap();
        // Reads until the client closes.
        let _ = stream.read_to_end(&mut received).await;
        String::from_utf8_lossy(&received).into_owned()
    });
    let outcome = order_from(&url, Some(certificate().cert.pem())).await;
    assert!(matches!(outcome, OrderResult::NotSent(_)), "{outcome:?}");
    let received = server.await.unwrap();
    assert!(!received.contains("private-token"), "{received}");
}

#[test]
fn bad_bundle_is_refused_at_once() {
    let build = |bundle: &str| {
        let mut options = super::options("https://localhost");
        options.ca_bundle = Some(bundle.as_bytes().to_vec());
        Client::new(options).err().unwrap()
    };
    for bundle in ["", "no certificate"] {
        let error = build(bundle);
        assert!(matches!(error, ClientError::CaBundleEmpty), "{error:?}");
    }
    for bundle in [
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let error = build(bundle);
        assert!(matches!(error, ClientError::CaBundle(_)), "{error:?}");
        assert!(error.to_string().contains("caBundle"));
    }
}
