//! What users write: keys, base URLs, orders, tags, IDs.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::marker::PhantomData;

use super::{KEY, order};
use hosting_types::{
    ApiKey, ApiKeyError, BaseUrl, BaseUrlError, Page, SecretText, ServerId, ServerStatus,
    request::InvalidRequest, tag::is_tag,
};

/// Finds out at compile time whether a type has a trait: if so, the constant of the bounded impl hides the trait's own.
macro_rules! implements {
    ($type:ty, $($bound:tt)+) => {{
        #[allow(dead_code)]
        trait Without {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> Without for T {}
        struct Probe<T: ?Sized>(PhantomData<T>);
        #[allow(dead_code)]
        impl<T: ?Sized + $($bound)+> Probe<T> {
            const ANSWER: bool = true;
        }
        <Probe<$type>>::ANSWER
    }};
}

#[test]
fn a_key_cannot_be_printed() {
    let probes = [
        (implements!(String, Debug), implements!(ApiKey, Debug)),
        (implements!(String, Display), implements!(ApiKey, Display)),
        (
            implements!(String, serde::Serialize),
            implements!(ApiKey, serde::Serialize),
        ),
    ];
    let texts = (
        implements!(SecretText, Debug),
        implements!(SecretText, Display),
        implements!(SecretText, serde::Serialize),
    );
    assert_eq!(texts, (false, false, false));
    // The probe finds the traits where they exist.
    assert_eq!(probes, [(true, false); 3]);
}

#[expect(clippy::disallowed_methods, reason = "the key itself is under test")]
#[test]
fn one_line_end_is_taken_off_a_key() {
    for text in ["abc", "abc\n", "abc\r\n"] {
        let key = ApiKey::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(key.expose(), "abc");
    }
}

#[test]
fn a_defective_key_is_refused_with_its_remedy() {
    let refused = |bytes: &[u8]| ApiKey::parse(bytes).err().unwrap();
    assert_eq!(refused(b""), ApiKeyError::Empty);
    assert_eq!(refused(b"\n"), ApiKeyError::Empty);
    assert_eq!(refused(b"a\nb"), ApiKeyError::LineBreak);
    assert_eq!(refused(b"ab\n\n"), ApiKeyError::LineBreak);
    assert_eq!(refused(b" ab"), ApiKeyError::Blank);
    assert_eq!(refused(b"a\tb"), ApiKeyError::Control);
    assert_eq!(refused(b"a\x7fb"), ApiKeyError::Control);
    assert_eq!(refused("schl\u{fc}ssel".as_bytes()), ApiKeyError::NotAscii);
    assert_eq!(refused(b"\xff\xfe"), ApiKeyError::NotAscii);
    assert_eq!(refused(&[b'a'; 4097]), ApiKeyError::TooLong);
    assert!(ApiKey::parse(&[b'a'; 4096]).is_ok());
}

#[test]
fn a_fingerprint_tells_keys_apart_and_shows_nothing() {
    let key = ApiKey::parse(KEY.as_bytes()).unwrap();
    let same = ApiKey::parse(format!("{KEY}\n").as_bytes()).unwrap();
    let other = ApiKey::parse(b"another").unwrap();
    assert_eq!(key.fingerprint(), same.fingerprint());
    assert!(key.is_same_as(&same));
    assert_ne!(key.fingerprint(), other.fingerprint());
    assert!(!key.is_same_as(&other));
    assert_eq!(key.fingerprint().len(), 12);
}

#[test]
fn base_urls_are_absolute_and_of_the_web() {
    let accepted = [
        "https://api.example.com",
        "https://api.example.com:8443/prefix/",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
        "http://localhost:8080/",
        "http://api.example.com",
    ];
    for text in accepted {
        BaseUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let long = format!("https://api.example.com/{}", "x".repeat(1024));
    let grows = format!("https://api.example.com/{}", "ä".repeat(200));
    let escaped = format!("https://api.example.com/{}", "&".repeat(200));
    let refused = HashMap::from([
        ("", BaseUrlError::NotAUrl),
        ("api.example.com", BaseUrlError::NotAUrl),
        ("https://", BaseUrlError::NotAUrl),
        (&*long, BaseUrlError::TooLong),
        (&*grows, BaseUrlError::TooLong),
        (&*escaped, BaseUrlError::TooLong),
        ("ftp://api.example.com", BaseUrlError::Scheme),
        ("file:///etc/passwd", BaseUrlError::Scheme),
        ("mailto:me@example.com", BaseUrlError::Scheme),
        ("https://me@api.example.com", BaseUrlError::UserInfo),
        ("https://me:pw@api.example.com", BaseUrlError::UserInfo),
        ("https://:pw@api.example.com", BaseUrlError::UserInfo),
        ("https://api.example.com?a=b", BaseUrlError::QueryOrFragment),
        ("https://api.example.com#a", BaseUrlError::QueryOrFragment),
        ("https://api.example.com/v3", BaseUrlError::Version),
        ("https://api.example.com/x/v3/", BaseUrlError::Version),
    ]);
    for (text, error) in refused {
        assert_eq!(BaseUrl::parse(text).err(), Some(error), "{text}");
        assert!(error.to_string().contains("baseURL"), "{error}");
        assert!(!error.to_string().contains("pw"), "{error}");
    }
}

#[test]
fn two_spellings_of_one_base_url_are_equal() {
    let plain = BaseUrl::parse("https://api.example.com").unwrap();
    let slash = BaseUrl::parse(" HTTPS://API.example.com:443/ ").unwrap();
    assert_eq!(plain, slash);
    assert_eq!(plain.as_str(), "https://api.example.com");
    let prefixed = BaseUrl::parse("https://api.example.com:8443/a/b/").unwrap();
    assert_eq!(prefixed.as_str(), "https://api.example.com:8443/a/b");
}

#[test]
fn no_segment_leads_away_from_the_base_url() {
    let base = BaseUrl::parse("https://api.example.com/prefix").unwrap();
    for segment in [
        "//evil.example.com/x",
        "https://evil.example.com",
        "..%2f..",
        "a/../../b",
        "a?b#c",
        "\\\\evil",
        "@evil.example.com",
    ] {
        let url = base.join(&["flexMetal", "tags", segment], &[]);
        assert_eq!(url.origin(), base.join(&[], &[]).origin());
        let segments: Vec<_> = url.path_segments().unwrap().collect();
        assert_eq!(segments.len(), 5, "{url}");
        assert_eq!(&segments[..4], ["prefix", "v3", "flexMetal", "tags"]);
        assert!(url.query().is_none() && url.fragment().is_none());
    }
}

#[test]
fn order_is_checked_by_api_rules() {
    order().check().unwrap();
    let broken = |change: fn(&mut hosting_types::Order)| {
        let mut order = order();
        change(&mut order);
        order.check().unwrap_err()
    };
    for name in [
        "",
        "-a",
        "a-",
        "a_b",
        "a..b",
        "a b",
        "a.",
        &"a".repeat(64),
        &["a"; 128].join("."),
    ] {
        let mut order = order();
        order.name = name.to_owned();
        // Only this system needs a valid host name.
        order.os.slug = "talos-omni-1110".to_owned();
        assert_eq!(
            order.check(),
            Err(InvalidRequest::HostName { field: "name" }),
            "{name}"
        );
    }
    for (name, fits) in [("a_b", true), ("", false), ("a\nb", false)] {
        let mut order = order();
        order.name = name.to_owned();
        let wanted = Err(InvalidRequest::Text { field: "name" });
        assert_eq!(order.check(), if fits { Ok(()) } else { wanted }, "{name}");
    }
    assert_eq!(
        broken(|order| order.location = " ".to_owned()),
        InvalidRequest::Text { field: "location" }
    );
    assert_eq!(
        broken(|order| order.instance_type = "a\nb".to_owned()),
        InvalidRequest::Text {
            field: "instanceType"
        }
    );
    assert_eq!(
        broken(|order| order.os.slug = "a".repeat(256)),
        InvalidRequest::Text { field: "os.slug" }
    );
    assert_eq!(
        broken(|order| order.tags = vec!["a".to_owned(); 61]),
        InvalidRequest::TooManyTags { count: 61 }
    );
    assert_eq!(
        broken(|order| order.tags.push("a.b".to_owned())),
        InvalidRequest::Tag {
            field: "tags[2]".to_owned()
        }
    );
    assert_eq!(
        broken(|order| order.contract_id = Some("lower".to_owned())),
        InvalidRequest::ContractId
    );
    assert_eq!(
        broken(|order| order.contract_id = Some("A".repeat(241))),
        InvalidRequest::ContractId
    );
    let mut most = order();
    most.tags = vec!["A_9:-".to_owned(); 60];
    most.contract_id = Some("A.9_-".to_owned());
    most.ssh_keys.clear();
    most.check().unwrap();
}

#[test]
fn tags_and_ids_are_safe_as_segments() {
    for tag in [
        "",
        ".",
        "..",
        "a/b",
        "a b",
        "a%2f",
        "\u{e4}",
        &"a".repeat(65),
    ] {
        assert!(!is_tag(tag), "{tag}");
    }
    for id in [
        "",
        "..",
        "01923b7e0c1f7d3a9c520a1b2c3d4e5f",
        "{01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f}",
        "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5/",
        "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5g",
    ] {
        assert!(ServerId::parse(id).is_err(), "{id}");
    }
    let upper = "01923B7E-0C1F-7D3A-9C52-0A1B2C3D4E5F";
    assert_eq!(ServerId::parse(upper).unwrap().to_string(), upper);
}

#[test]
fn pages_stay_within_the_limits_of_the_api() {
    assert_eq!(Page::first().header(), "start=0,results=50");
    assert_eq!(Page::new(7, 0).header(), "start=7,results=1");
    assert_eq!(Page::new(0, 100).header(), "start=0,results=50");
    assert_eq!(Page::new(0, 20).at(19).header(), "start=19,results=20");
}

#[test]
fn only_an_end_is_not_live() {
    for word in [
        "created",
        "creating",
        "discovering",
        "discovered",
        "allocating",
        "allocated",
        "configuring_network",
        "network_configured",
        "provisioning",
        "provisioned",
        "delivered",
        "failed",
        "releasing",
        "released",
        "a_new_word",
        "Released",
        "",
    ] {
        let status = ServerStatus::parse(word);
        assert_eq!(status.as_str(), word);
        let ended = ["failed", "releasing", "released"].contains(&word);
        assert_eq!(status.is_live(), !ended, "{word}");
        let known = !["a_new_word", "Released", ""].contains(&word);
        assert_eq!(matches!(status, ServerStatus::Other(_)), !known, "{word}");
    }
}
