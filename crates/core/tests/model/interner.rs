//! Values by small numbers: a state that contains the numbers stays `Copy`, and what is slow to make is made once.

use std::{collections::HashMap, hash::Hash, sync::Mutex};

/// Values and their numbers.
pub struct Interner<K, V> {
    inner: Mutex<(HashMap<K, u32>, Vec<V>)>,
}

impl<K, V> Default for Interner<K, V> {
    fn default() -> Self {
        Self {
            inner: Mutex::new((HashMap::new(), Vec::new())),
        }
    }
}

impl<K: Hash + Eq, V: Clone> Interner<K, V> {
    /// The number of the value that `make` makes of this key, once.
    pub fn put(&self, key: K, make: impl FnOnce(&K) -> V) -> u32 {
        let mut inner = self.inner.lock().unwrap();
        let (numbers, values) = &mut *inner;
        *numbers.entry(key).or_insert_with_key(|key| {
            values.push(make(key));
            u32::try_from(values.len() - 1).unwrap()
        })
    }

    pub fn get(&self, number: u32) -> V {
        self.inner.lock().unwrap().1[number as usize].clone()
    }
}
