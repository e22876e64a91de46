//! Parses each list of stored keys once: hundreds of objects share a list, and parsing a key computes a hash.

use flexmetal_core::ssh_key::facts::SeenKey;
use hosting_types::ssh_key::SshKey as Record;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A list, and its keys as parsed by the first caller.
type ParsedKeyList = (Weak<Vec<Record>>, Arc<OnceLock<Arc<Vec<SeenKey>>>>);

/// The parsed lists that are still in use.
#[derive(Clone, Default)]
pub struct KeyListCache(Arc<Mutex<Vec<ParsedKeyList>>>);

impl KeyListCache {
    /// The keys of a list. Only callers of the same list wait for each other.
    pub fn parse_list(&self, list: &Arc<Vec<Record>>) -> Arc<Vec<SeenKey>> {
        let cell = self.cell(list);
        let read = || Arc::new(list.iter().map(SeenKey::from_record).collect());
        cell.get_or_init(read).clone()
    }

    fn cell(&self, list: &Arc<Vec<Record>>) -> Arc<OnceLock<Arc<Vec<SeenKey>>>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(list, _)| list.strong_count() > 0);
        let is_it = |(known, _): &&ParsedKeyList| Weak::as_ptr(known) == Arc::as_ptr(list);
        if let Some((_, cell)) = all.iter().find(is_it) {
            return cell.clone();
        }
        let cell = Arc::default();
        all.push((Arc::downgrade(list), Arc::clone(&cell)));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::SshKeyId;

    #[test]
    fn key_list_is_parsed_once_while_in_use() {
        let record = |name: &str| Record {
            id: SshKeyId::parse("0b2c4f5e-1111-4222-8333-444455556666").unwrap(),
            name: name.into(),
            public_key: "no key".into(),
            created_at: None,
        };
        let owner_hash = "0123456789abcdef01234567";
        let list = Arc::new(vec![
            record("plain"),
            record(&format!("a.b:fmo-key:{owner_hash}")),
        ]);
        let cache = KeyListCache::default();
        let first = cache.parse_list(&list);
        assert!(Arc::ptr_eq(&first, &cache.parse_list(&list)));
        let owner_hashes: Vec<_> = first.iter().map(|key| key.owner_hash.as_deref()).collect();
        assert_eq!(owner_hashes, [None, Some(owner_hash)]);
        // Parsing a list, however long it takes, does not block another list.
        let slow = Arc::new(vec![record("slow")]);
        let cell = cache.cell(&slow);
        cell.get_or_init(|| {
            assert_eq!(cache.parse_list(&Arc::new(vec![record("other")])).len(), 1);
            Arc::default()
        });
        drop((list, slow));
        cache.parse_list(&Arc::new(Vec::new()));
        assert_eq!(cache.0.lock().unwrap().len(), 1);
    }
}
