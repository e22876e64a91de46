use super::*;
use crate::{Client, ClientError, ClientOptions, Gates, http::HttpTransport};
use hosting_types::{ApiKey, error::NotSent};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

const PUBLIC: [&str; 16] = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "192.169.0.0",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2001:200::1",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
];

const REFUSED: [&str; 48] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::1.1.1.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1.1.1.1",
    "64:ff9b:0:1::1.1.1.1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::1",
    "2001:2::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "ff02::1",
];

#[test]
fn every_address_form_is_public_or_refused() {
    for text in PUBLIC {
        assert!(is_public(text.parse().unwrap()), "{text}");
    }
    for text in REFUSED {
        assert!(!is_public(text.parse().unwrap()), "{text}");
    }
    assert!(!is_public("fec0::1".parse().unwrap()));
    assert!(is_public("2002:101:101::1".parse().unwrap()));
}

#[test]
fn url_address_is_judged_in_any_spelling() {
    let judged = |text: &str| check(&BaseUrl::parse(text).unwrap(), None).err();
    for text in PUBLIC {
        let host = match text.contains(':') {
            true => format!("[{text}]"),
            false => text.to_owned(),
        };
        assert_eq!(judged(&format!("https://{host}:8443/x")), None, "{text}");
    }
    for text in REFUSED {
        let host = match text.contains(':') {
            true => format!("[{text}]"),
            false => text.to_owned(),
        };
        let error = judged(&format!("https://{host}"));
        assert_eq!(error, Some(DialError::NotPublic), "{text}");
    }
    for text in [
        "https://2130706433",
        "https://0x7f000001",
        "https://0177.0.0.1",
        "https://127.1",
        "https://127.0.0.1.",
        "https://①②⑦.0.0.1",
        "https://localhost",
        "https://LOCALHOST.:8443",
        "https://api.localhost",
        "https://[::ffff:7f00:1]",
    ] {
        assert_eq!(judged(text), Some(DialError::NotPublic), "{text}");
    }
    assert_eq!(judged("https://api.example.com"), None);
    // A name is checked when it is dialled.
    assert_eq!(judged("https://localhost.example.com"), None);
    assert_eq!(judged("http://api.example.com"), Some(DialError::PlainHttp));
}

#[test]
fn proxied_cluster_names_are_refused() {
    let proxy = ProviderProxy::parse("http://10.0.0.5:3128").unwrap();
    let judged = |text: &str| check(&BaseUrl::parse(text).unwrap(), Some(&proxy)).err();
    for host in [
        "kubernetes",
        "kubernetes.default.svc",
        "KUBERNETES.default.svc.cluster.local.",
        "metadata.google.internal",
        "router.home.arpa",
    ] {
        let error = judged(&format!("https://{host}"));
        assert_eq!(error, Some(DialError::NameNotPublic), "{host}");
        let url = BaseUrl::parse(&format!("https://{host}")).unwrap();
        assert_eq!(check(&url, None), Ok(()), "{host} is judged when dialled");
    }
    for host in ["127.0.0.1", "169.254.169.254", "[::1]", "localhost"] {
        let error = judged(&format!("https://{host}"));
        assert_eq!(error, Some(DialError::NotPublic), "{host}");
    }
    assert_eq!(judged("http://api.example.com"), Some(DialError::PlainHttp));
    assert_eq!(judged("https://api.example.com"), None);
}

/// A resolver for tests: the name says what it resolves to.
fn by_name(name: &str) -> io::Result<Vec<SocketAddr>> {
    let found: &[&str] = match name {
        "public.test" => &["1.1.1.1:0", "[2606:4700::1111]:0"],
        "mixed.test" => &["10.0.0.1:0", "1.1.1.1:0", "[::1]:0"],
        "metadata.test" => &["169.254.169.254:0"],
        _ => &["127.0.0.1:0", "[::ffff:127.0.0.1]:0", "[fd00::1]:0"],
    };
    Ok(found.iter().map(|text| text.parse().unwrap()).collect())
}

#[tokio::test]
async fn a_name_gives_its_public_addresses_alone() {
    let resolver = PublicResolver::with(Lookups::new(1), by_name);
    let found = async |name: &str| {
        let found = resolver.resolve(name.parse().unwrap()).await;
        found.map(|all| all.map(|one| one.ip().to_string()).collect::<Vec<_>>())
    };
    assert_eq!(
        found("public.test").await.unwrap(),
        ["1.1.1.1", "2606:4700::1111"]
    );
    assert_eq!(found("mixed.test").await.unwrap(), ["1.1.1.1"]);
    for name in ["private.test", "metadata.test"] {
        let error = found(name).await.unwrap_err();
        let error = error.downcast_ref::<DialError>();
        assert_eq!(error, Some(&DialError::NameNotPublic), "{name}");
    }
}

fn client_for(base_url: &BaseUrl) -> Client {
    let resolver = PublicResolver::with(Lookups::new(1), by_name);
    let transport =
        HttpTransport::with(base_url, None, Some(resolver), None, Gates::default()).unwrap();
    let key = ApiKey::parse(b"key").unwrap();
    Client::with_transport(base_url.clone(), key, Arc::new(transport))
}

#[tokio::test]
async fn call_to_private_name_fails_with_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let base_url = BaseUrl::parse(&format!("https://private.test:{port}")).unwrap();
    let error = client_for(&base_url).health().await.unwrap_err();
    assert!(
        matches!(&error, hosting_types::Error::NotSent(NotSent::Connect(_))),
        "{error:?}"
    );
    let message = error.explain();
    assert!(
        message.contains("no public address") && message.contains("--allowed-base-url"),
        "{message}"
    );
    // A connection would have arrived by now.
    let connection = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(connection.is_err(), "somebody connected");
}

static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[expect(
    clippy::disallowed_methods,
    reason = "a look-up that takes its time, on a thread for such"
)]
fn slow(_: &str) -> io::Result<Vec<SocketAddr>> {
    let now = AT_ONCE.fetch_add(1, Ordering::SeqCst) + 1;
    MOST.fetch_max(now, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    AT_ONCE.fetch_sub(1, Ordering::SeqCst);
    Ok(vec!["1.1.1.1:0".parse().unwrap()])
}

#[tokio::test]
async fn abandoned_lookups_still_count() {
    let resolver = PublicResolver::with(Lookups::new(2), slow);
    for _ in 0..8 {
        let name = "slow.test".parse().unwrap();
        // Dropped at once, as by a time-out.
        let _ = tokio::time::timeout(Duration::from_millis(1), resolver.resolve(name)).await;
    }
    let last = resolver.resolve("slow.test".parse().unwrap()).await;
    assert_eq!(last.unwrap().count(), 1);
    assert!((1..=2).contains(&MOST.load(Ordering::SeqCst)));
}

#[test]
fn public_client_refuses_other_addresses() {
    let made = |text: &str, dial: Dial| {
        let base_url = BaseUrl::parse(text).unwrap();
        let mut options = ClientOptions::new(base_url, ApiKey::parse(b"key").unwrap());
        options.dial = dial;
        Client::new(options).err()
    };
    for text in ["https://127.0.0.1", "https://localhost", "http://1.1.1.1"] {
        let error = made(text, Dial::default());
        assert!(matches!(error, Some(ClientError::Dial(_))), "{error:?}");
    }
    assert!(made("http://127.0.0.1", Dial::Anywhere).is_none());
}
