//! Recognisable secrets: each starts and ends with a text that occurs nowhere else, and no output may contain either.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The start of every secret, after a letter of its own, since two secrets with the same start could be confused.
pub(crate) const BEGIN: &str = "q7vK2xW9pLm";
/// The end of every secret.
pub(crate) const END: &str = "tR4nB8cY6hJd";

pub(crate) const KEY: &str = "Kq7vK2xW9pLm/api+key=1tR4nB8cY6hJd";
pub(crate) const WRONG_KEY: &str = "Wq7vK2xW9pLm/wrong+key=1tR4nB8cY6hJd";
pub(crate) const OLD_PASSWORD: &str = "Oq7vK2xW9pLm öld \"pass\" & 1% tR4nB8cY6hJd";
pub(crate) const NEW_PASSWORD: &str = "Nq7vK2xW9pLm\\new/päss<word>tR4nB8cY6hJd";
pub(crate) const WRONG_HASH: &str = "Hq7vK2xW9pLm-no-hash-tR4nB8cY6hJd";
pub(crate) const SCRIPT: &str =
    "#!/bin/sh\nSq7vK2xW9pLm=\"$1\"\ncurl -H 'x: y' \"https://a.example/?t=tR4nB8cY6hJd\"\n";
pub(crate) const USER_DATA: &str = "Dq7vK2xW9pLm: user data\nin lines: tR4nB8cY6hJd";
pub(crate) const KERNEL_VALUE: &str = "https://Pq7vK2xW9pLm.example:443?jointoken=tR4nB8cY6hJd";

/// The recognisable part of a secret that the simulator generates: a root password or the hash of a reset. Its start
/// counts as much as all of it.
static MADE_UP: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// The same for the start and end texts.
static BOUNDARY_SPELLINGS: LazyLock<Vec<String>> =
    LazyLock::new(|| [BEGIN, END].into_iter().flat_map(spellings).collect());

/// From now on, this text is a secret.
pub(crate) fn remember(secret: &str) {
    let begin: String = secret.chars().take(12).collect();
    let mut known = MADE_UP.lock().unwrap_or_else(PoisonError::into_inner);
    known.extend(spellings(&begin));
}

/// The secret that a text contains, plain or encoded.
pub(crate) fn found_in(text: &str) -> Option<String> {
    let known = MADE_UP.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = BOUNDARY_SPELLINGS.iter().chain(known.iter());
    all.find(|secret| text.contains(secret.as_str())).cloned()
}

/// Plain and in base64; JSON and percent encoding change none of these.
fn spellings(secret: &str) -> Vec<String> {
    let mut all = in_base64(secret);
    all.push(secret.to_owned());
    all
}

/// The base64 letters that depend only on the secret, for each position at which it may start.
fn in_base64(secret: &str) -> Vec<String> {
    let codes = (0..3).flat_map(|shift| {
        let padded = format!("{}{secret}", &"   "[..shift]);
        let whole = padded.len() / 3 * 3;
        let from = [0, 2, 3][shift];
        [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD].map(|engine| {
            let code = engine.encode(&padded.as_bytes()[..whole]);
            code[from..].to_owned()
        })
    });
    codes.collect()
}

/// Fails the test if a text contains a secret.
pub(crate) fn none_in(what: &str, text: &str) {
    if let Some(secret) = found_in(text) {
        panic!("{what} shows the secret {secret}: {text}");
    }
}

#[test]
fn canaries_are_found_in_every_spelling() {
    for secret in [
        KEY,
        WRONG_KEY,
        OLD_PASSWORD,
        NEW_PASSWORD,
        WRONG_HASH,
        SCRIPT,
        USER_DATA,
        KERNEL_VALUE,
    ] {
        let percent: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let spellings = [
            secret.to_owned(),
            percent,
            serde_json::Value::from(secret).to_string(),
            format!("{secret:?}"),
            STANDARD_NO_PAD.encode(secret),
            URL_SAFE_NO_PAD.encode(format!("a{secret}")),
            STANDARD_NO_PAD.encode(format!("ab{secret}")),
            // Cut on either side.
            secret[..secret.find(BEGIN).unwrap() + BEGIN.len()].to_owned(),
            secret[secret.find(END).unwrap()..].to_owned(),
        ];
        for spelling in spellings {
            assert!(found_in(&spelling).is_some(), "{spelling}");
        }
    }
    remember("made-up-by-the-simulator");
    assert!(found_in("it is made-up-by-th and so on").is_some());
    assert_eq!(found_in("nothing of the kind"), None);
}
