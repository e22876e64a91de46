//! The finalizers of an account and its Secret while objects use them.

use super::{
    super::facts::{AccountFacts, KeyFault, SecretFact},
    AccountEffect,
};

/// The finalizer goes first on the account, which records the Secret's name, then on the Secret; they are removed in
/// reverse order. So no Secret has a finalizer that no account remembers.
pub(super) fn decide_finalizers(facts: &AccountFacts) -> (Option<AccountEffect>, Option<bool>) {
    let Some(users) = facts.users else {
        return (None, None);
    };
    let name = &facts.spec.api_key_secret_ref.name;
    let (secret_has_finalizer, secret_deleting) = match facts.secret {
        SecretFact::Found {
            has_finalizer,
            deleting,
            ..
        } => (has_finalizer, deleting),
        _ => (false, false),
    };
    let is_key_secret = !matches!(
        facts.secret,
        SecretFact::Found {
            key: Err(KeyFault::OtherType),
            ..
        }
    );
    if users > 0 {
        let effect = match (facts.has_finalizer(), facts.finalized_secret()) {
            // The API server accepts no new finalizer on an object that is being deleted.
            (false, _) => (!facts.is_deleting()).then_some(AccountEffect::AddAccountFinalizer),
            (true, recorded) if recorded != Some(name) => {
                Some(AccountEffect::MoveSecretFinalizer {
                    from: recorded
                        .filter(|_| !facts.secret_is_shared)
                        .map(str::to_owned),
                })
            }
            // A Secret of the wrong type must not have it: with it the Secret could not be recreated.
            (true, _) if !is_key_secret => {
                secret_has_finalizer.then_some(AccountEffect::ClearWrongSecret)
            }
            (true, _) => {
                let can = matches!(facts.secret, SecretFact::Found { .. });
                (can && !secret_has_finalizer && !secret_deleting)
                    .then_some(AccountEffect::AddSecretFinalizer)
            }
        };
        let has_finalizers = facts.has_finalizer()
            && facts.finalized_secret() == Some(name)
            && secret_has_finalizer
            && is_key_secret;
        return (effect, Some(has_finalizers));
    }
    let effect = match facts.finalized_secret() {
        _ if !facts.has_finalizer() => None,
        Some(recorded) if recorded != name => Some(AccountEffect::MoveSecretFinalizer {
            from: (!facts.secret_is_shared).then(|| recorded.to_owned()),
        }),
        Some(_) if secret_has_finalizer && !is_key_secret => Some(AccountEffect::ClearWrongSecret),
        Some(_) if secret_has_finalizer && !facts.secret_is_shared => {
            Some(AccountEffect::RemoveSecretFinalizer { name: name.clone() })
        }
        // The Secret could not be read and may have the finalizer, so its name stays recorded.
        Some(_) if matches!(facts.secret, SecretFact::Unread(_)) => None,
        _ => Some(AccountEffect::RemoveAccountFinalizer),
    };
    (effect, Some(false))
}
