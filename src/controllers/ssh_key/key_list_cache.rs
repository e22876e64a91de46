//! The looks at the accounts' keys, read once each: hundreds of objects ask about the same list, and to read a key
//! takes a hash.

use flexmetal_core::ssh_key::facts::SeenKey;
use hosting_types::ssh_key::SshKey as Record;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A list as it came, and as it is read by the first who asks.
type ParsedKeyList = (Weak<Vec<Record>>, Arc<OnceLock<Arc<Vec<SeenKey>>>>);

/// What was read of the lists that are still in use.
#[derive(Clone, Default)]
pub struct KeyListCache(Arc<Mutex<Vec<ParsedKeyList>>>);

impl KeyListCache {
    /// The keys of a list. Others are read meanwhile: only who asks for the same one waits.
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
        let mark = "0123456789abcdef01234567";
        let list = Arc::new(vec![
            record("plain"),
            record(&format!("a.b:fmo-key:{mark}")),
        ]);
        let looks = KeyListCache::default();
        let first = looks.parse_list(&list);
        assert!(Arc::ptr_eq(&first, &looks.parse_list(&list)));
        let marks: Vec<_> = first.iter().map(|key| key.owner_hash.as_deref()).collect();
        assert_eq!(marks, [None, Some(mark)]);
        // While one list is being read, which takes as long as it takes, another one is not held up.
        let slow = Arc::new(vec![record("slow")]);
        let cell = looks.cell(&slow);
        cell.get_or_init(|| {
            assert_eq!(looks.parse_list(&Arc::new(vec![record("other")])).len(), 1);
            Arc::default()
        });
        drop((list, slow));
        looks.parse_list(&Arc::new(Vec::new()));
        assert_eq!(looks.0.lock().unwrap().len(), 1);
    }
}
