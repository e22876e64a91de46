//! What the drill never prints.

use std::net::IpAddr;

use http::HeaderValue;

/// A text without what must not be printed: the key, IP addresses and e-mail addresses.
pub(super) fn mask(text: &str, key: &HeaderValue) -> String {
    let text = match key.to_str() {
        Ok(key) => text.replace(key, "<key>"),
        Err(_) => return String::new(),
    };
    let lines = text.split('\n').map(|line| {
        let words = line.split(' ').map(|word| match has_address(word) {
            true => "<address>",
            false => word,
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a word has an IP address, also with a port or a prefix length, or an e-mail address.
fn has_address(word: &str) -> bool {
    let is_other = |it: char| !(it.is_ascii_hexdigit() || it == ':' || it == '.');
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
    let mut parts = word.split(is_other);
    word.contains('@')
        || parts.any(|part| {
            let part = part
                .trim_matches('.')
                .trim_start_matches(|it| it == ':' && !part.starts_with("::"));
            let before_port = part.split(':').next().unwrap_or_default();
            is_ip(part) || is_ip(part.trim_end_matches(':')) || is_ip(before_port)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_shows_neither_key_nor_address() {
        let key = HeaderValue::from_static("k-123");
        let words = "Key k-123 is refused from 192.0.2.7, (2001:db8::1)\nor owner@example.com.";
        assert_eq!(
            mask(words, &key),
            "Key <key> is refused from <address> <address>\nor <address>"
        );
        for word in [
            "192.0.2.7/32,",
            "192.0.2.7:443",
            "from:192.0.2.7",
            "2001:db8::/32",
            "[2001:db8::]",
            "http://10.0.0.5:8480",
        ] {
            assert_eq!(mask(word, &key), "<address>", "{word}");
        }
        let harmless = "3.5 of 4: created at 2026-11-01T12:00:01Z, version 1.2.3";
        assert_eq!(mask(harmless, &key), harmless);
    }
}
