//! Acknowledgements: the lists of a status, and the annotation.

use super::*;
use api::acknowledgement::{Acknowledged, AcknowledgementEffect, PendingAcknowledgement};

/// The two lists of a status.
type Lists = (Vec<PendingAcknowledgement>, Vec<Acknowledged>);

/// Lists by number; 0 is that of two empty ones.
pub static LISTS: LazyLock<Interner<String, Arc<Lists>>> = LazyLock::new(|| {
    let all = Interner::default();
    all.put(key(&Lists::default()), Arc::default);
    all
});

/// Annotations by number; 0 is none.
pub static TEXTS: LazyLock<Interner<String, String>> = LazyLock::new(|| {
    let all = Interner::default();
    all.put(String::new(), String::new);
    all
});

fn key(lists: &Lists) -> String {
    serde_json::to_string(lists).unwrap()
}

/// Numbers the lists of a status.
pub fn lists(pending: &[PendingAcknowledgement], acknowledged: &[Acknowledged]) -> u32 {
    let lists = (pending.to_vec(), acknowledged.to_vec());
    LISTS.put(key(&lists), || Arc::new(lists))
}

/// The token of this effect.
pub fn token(lists: u32, effect: AcknowledgementEffect) -> Option<String> {
    let lists = LISTS.get(lists);
    let asked = lists.0.iter().find(|asked| asked.effect == effect)?;
    Some(asked.token.clone())
}

/// Whether the annotation has this token.
pub fn has_token(annotation: u32, token: &str) -> bool {
    TEXTS.get(annotation).split(',').any(|t| t == token)
}

/// The annotation with one more token.
pub fn with_token(annotation: u32, token: &str) -> u32 {
    let text = match &*TEXTS.get(annotation) {
        "" => token.to_owned(),
        before => format!("{before},{token}"),
    };
    TEXTS.put(text.clone(), || text)
}
