//! The finalizers that keep an account and its Secret for as long as anybody uses them.

use super::{
    super::facts::{AccountFacts, KeyFault, SecretFact},
    AccountEffect,
};

/// The finalizers: on the account first, which remembers the Secret, then on the Secret; off in the
/// other order. So there is never one on a Secret that nobody remembers.
pub(super) fn finalizers(facts: &AccountFacts) -> (Option<AccountEffect>, Option<bool>) {
    let Some(users) = facts.users else {
        return (None, None);
    };
    let name = &facts.spec.api_key_secret_ref.name;
    let (secret_held, secret_deleting) = match facts.secret {
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
            // Nothing can be put on an object that is being deleted.
            (false, _) => (!facts.is_deleting()).then_some(AccountEffect::AddAccountFinalizer),
            (true, held) if held != Some(name) => Some(AccountEffect::MoveSecretFinalizer {
                from: held.filter(|_| !facts.secret_is_shared).map(str::to_owned),
            }),
            // None of ours belongs there, and with it the Secret could not be made again.
            (true, _) if !is_key_secret => secret_held.then_some(AccountEffect::ClearWrongSecret),
            (true, _) => {
                let can = matches!(facts.secret, SecretFact::Found { .. });
                (can && !secret_held && !secret_deleting)
                    .then_some(AccountEffect::AddSecretFinalizer)
            }
        };
        let held = facts.has_finalizer()
            && facts.finalized_secret() == Some(name)
            && secret_held
            && is_key_secret;
        return (effect, Some(held));
    }
    let effect = match facts.finalized_secret() {
        _ if !facts.has_finalizer() => None,
        Some(held) if held != name => Some(AccountEffect::MoveSecretFinalizer {
            from: (!facts.secret_is_shared).then(|| held.to_owned()),
        }),
        Some(_) if secret_held && !is_key_secret => Some(AccountEffect::ClearWrongSecret),
        Some(_) if secret_held && !facts.secret_is_shared => {
            Some(AccountEffect::RemoveSecretFinalizer { name: name.clone() })
        }
        // Whether it bears the finalizer is not known: do not forget it.
        Some(_) if matches!(facts.secret, SecretFact::Unread(_)) => None,
        _ => Some(AccountEffect::RemoveAccountFinalizer),
    };
    (effect, Some(false))
}
