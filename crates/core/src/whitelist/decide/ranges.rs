//! Address ranges and sets of them, compared as numbers: 192.0.2.7/32 equals the range 192.0.2.7-192.0.2.7. An IPv4
//! address and its IPv4-mapped IPv6 form differ, because the provider does not document that it treats them alike.

use core::{fmt, net::IpAddr};
use hosting_types::whitelist::AddressRange;
use ipnet::IpNet;

/// The address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4, 32 bits.
    V4,
    /// IPv6, 128 bits.
    V6,
}

/// An inclusive range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    family: Family,
    first: u128,
    last: u128,
}

impl Range {
    /// The range between two addresses. None if the families differ or the order is wrong.
    pub fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        let ((family, first), (other, last)) = (number(first), number(last));
        (family == other && first <= last).then_some(Self {
            family,
            first,
            last,
        })
    }

    /// All addresses of a network.
    pub fn of_net(net: IpNet) -> Self {
        let (family, first) = number(net.network());
        let (_, last) = number(net.broadcast());
        Self {
            family,
            first,
            last,
        }
    }

    /// Converts the addresses of a request.
    pub fn sent(range: AddressRange) -> Option<Self> {
        match range {
            AddressRange::Net(net) => Some(Self::of_net(net)),
            AddressRange::Span(first, last) => Self::between(first, last),
        }
    }

    /// Converts the addresses of a provider's record. None if they are ambiguous: host bits set, only one end of a
    /// range, or two forms that differ.
    pub fn shown(net: Option<&str>, first: Option<&str>, last: Option<&str>) -> Option<Self> {
        let net = net.map(|text| parse_net(text.trim()));
        let ends = match (first, last) {
            (None, None) => None,
            (Some(first), Some(last)) => {
                let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
                Some(Self::between(parse(first)?, parse(last)?))
            }
            _ => return None,
        };
        match (net, ends) {
            (Some(net), None) => net,
            (None, Some(ends)) => ends,
            (Some(net), Some(ends)) => net.filter(|_| net == ends),
            (None, None) => None,
        }
    }

    /// First and last address.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        (
            address(self.family, self.first),
            address(self.family, self.last),
        )
    }

    /// The address family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Number of addresses minus one.
    pub fn width(&self) -> u128 {
        self.last - self.first
    }
}

/// Parses a single address, or a network without host bits.
fn parse_net(text: &str) -> Option<Range> {
    if let Ok(single) = text.parse::<IpAddr>() {
        return Range::between(single, single);
    }
    let net: IpNet = text.parse().ok()?;
    (net == net.trunc()).then(|| Range::of_net(net))
}

fn number(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(address) => (Family::V4, u32::from(address).into()),
        IpAddr::V6(address) => (Family::V6, address.into()),
    }
}

fn address(family: Family, number: u128) -> IpAddr {
    match (family, u32::try_from(number)) {
        (Family::V4, Ok(number)) => IpAddr::V4(number.into()),
        _ => IpAddr::V6(number.into()),
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.ends();
        let bits: u32 = match self.family {
            Family::V4 => 32,
            Family::V6 => 128,
        };
        let host = u128::BITS - self.width().leading_zeros();
        let is_net = self
            .width()
            .checked_add(1)
            .is_none_or(u128::is_power_of_two)
            && self.first.trailing_zeros().min(bits) >= host;
        match is_net {
            true => write!(f, "{first}/{}", bits - host),
            false => write!(f, "{first}-{last}"),
        }
    }
}

/// A set of addresses, as sorted ranges that neither overlap nor adjoin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Addresses(Vec<Range>);

impl FromIterator<Range> for Addresses {
    fn from_iter<T: IntoIterator<Item = Range>>(ranges: T) -> Self {
        let mut all: Vec<Range> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut joined: Vec<Range> = Vec::with_capacity(all.len());
        for range in all {
            match joined.last_mut() {
                Some(before) if touches(before, &range) => {
                    before.last = before.last.max(range.last)
                }
                _ => joined.push(range),
            }
        }
        Self(joined)
    }
}

/// Whether `next` overlaps or adjoins `before`. `next` must not start before `before`.
fn touches(before: &Range, next: &Range) -> bool {
    before.family == next.family && next.first <= before.last.saturating_add(1)
}

impl Addresses {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges of the set.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// Whether the set contains a whole range.
    pub fn covers(&self, range: &Range) -> bool {
        let is_around =
            |r: &Range| r.family == range.family && r.first <= range.first && range.last <= r.last;
        // Adjoining ranges are joined, so a single range must contain it.
        self.0.iter().any(is_around)
    }

    /// Whether the set contains another set.
    pub fn covers_all(&self, others: &Self) -> bool {
        others.0.iter().all(|range| self.covers(range))
    }

    /// Whether the set contains any address of a range.
    pub fn meets(&self, range: &Range) -> bool {
        let is_met =
            |r: &Range| r.family == range.family && r.first <= range.last && range.first <= r.last;
        self.0.iter().any(is_met)
    }

    /// The ranges of this set that `other` does not contain as a whole.
    pub fn not_covered_by(&self, other: &Self) -> Vec<Range> {
        let ranges = self.0.iter().filter(|range| !other.covers(range));
        ranges.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn net(text: &str) -> Range {
        Range::of_net(text.parse().unwrap())
    }

    #[test]
    fn every_form_of_addresses_gives_one_range() {
        let one = Range::between(ip("192.0.2.7"), ip("192.0.2.7"));
        for (shown, first, last) in [
            (Some("192.0.2.7/32"), None, None),
            (Some(" 192.0.2.7 "), None, None),
            (None, Some("192.0.2.7"), Some("192.0.2.7")),
            (Some("192.0.2.7/32"), Some("192.0.2.7"), Some("192.0.2.7")),
        ] {
            assert_eq!(Range::shown(shown, first, last), one, "{shown:?} {first:?}");
        }
        let eight = Range::shown(None, Some("2001:0DB8::0"), Some("2001:db8::7"));
        assert_eq!(eight, Some(net("2001:db8::/125")));
        for whole in ["0.0.0.0/0", "::/0"] {
            let (first, last) = net(whole).ends();
            let (first, last) = (first.to_string(), last.to_string());
            assert_eq!(
                Range::shown(None, Some(&first), Some(&last)),
                Some(net(whole))
            );
            assert_eq!(net(whole).to_string(), whole);
        }
    }

    #[test]
    fn ambiguous_addresses_give_no_range() {
        for (shown, first, last) in [
            (None, None, None),
            (Some("192.0.2.7/24"), None, None),
            (Some("192.0.2.0/33"), None, None),
            (Some("*"), None, None),
            (None, Some("192.0.2.7"), None),
            (None, None, Some("192.0.2.7")),
            (None, Some("192.0.2.9"), Some("192.0.2.7")),
            (None, Some("192.0.2.9"), Some("2001:db8::7")),
            (Some("192.0.2.0/24"), Some("192.0.2.0"), Some("192.0.2.7")),
            (Some("192.0.2.0/24"), Some("192.0.2.0"), None),
        ] {
            assert_eq!(
                Range::shown(shown, first, last),
                None,
                "{shown:?} {first:?}"
            );
        }
    }

    #[test]
    fn ipv4_mapped_address_differs_from_ipv4() {
        let mapped: Addresses = [net("::ffff:0:0/96")].into_iter().collect();
        assert!(!mapped.covers(&net("192.0.2.7/32")));
        let all: Addresses = [net("0.0.0.0/0")].into_iter().collect();
        assert!(!all.covers(&net("::ffff:192.0.2.7/128")));
        assert!(all.covers(&net("0.0.0.0/0")) && !all.covers(&net("::/0")));
    }

    #[test]
    fn a_range_reads_as_people_write_it() {
        let shown = |first, last| Range::between(ip(first), ip(last)).unwrap().to_string();
        assert_eq!(shown("192.0.2.0", "192.0.2.255"), "192.0.2.0/24");
        assert_eq!(shown("192.0.2.7", "192.0.2.7"), "192.0.2.7/32");
        assert_eq!(shown("192.0.2.1", "192.0.2.2"), "192.0.2.1-192.0.2.2");
        assert_eq!(shown("0.0.0.0", "0.0.0.1"), "0.0.0.0/31");
        assert_eq!(shown("::", "::1"), "::/127");
    }

    /// Test addresses: the lowest 64 of IPv4 and the highest 64 of IPv6.
    fn small(is_v6: bool, at: u8) -> IpAddr {
        match is_v6 {
            false => IpAddr::V4(u32::from(at).into()),
            true => IpAddr::V6((u128::MAX - 63 + u128::from(at)).into()),
        }
    }

    /// The test addresses that the ranges contain.
    fn bits(ranges: &[Range]) -> BTreeSet<(bool, u8)> {
        let all = [false, true]
            .into_iter()
            .flat_map(|v6| (0..64).map(move |at| (v6, at)));
        all.filter(|(v6, at)| {
            let (family, number) = number(small(*v6, *at));
            ranges
                .iter()
                .any(|r| r.family == family && r.first <= number && number <= r.last)
        })
        .collect()
    }

    fn ranges(most: usize) -> impl Strategy<Value = Vec<Range>> {
        let one = (any::<bool>(), 0..64_u8, 0..64_u8).prop_map(|(v6, one, other)| {
            let (first, last) = (one.min(other), one.max(other));
            Range::between(small(v6, first), small(v6, last)).unwrap()
        });
        prop::collection::vec(one, 0..most)
    }

    proptest! {
        #[test]
        fn sets_are_what_bits_say(some in ranges(6), others in ranges(4)) {
            let (set, other): (Addresses, Addresses) =
                (some.iter().copied().collect(), others.iter().copied().collect());
            let (plain, other_plain) = (bits(&some), bits(&others));
            prop_assert_eq!(bits(set.ranges()), plain.clone());
            prop_assert_eq!(set.covers_all(&other), other_plain.is_subset(&plain));
            prop_assert_eq!(set.is_empty(), plain.is_empty());
            for range in &others {
                let its = bits(&[*range]);
                prop_assert_eq!(set.covers(range), its.is_subset(&plain));
                prop_assert_eq!(set.meets(range), !its.is_disjoint(&plain));
            }
            let missing = bits(&other.not_covered_by(&set));
            prop_assert_eq!(missing.is_empty(), other_plain.is_subset(&plain));
            let apart = set.ranges().windows(2).all(|two| !touches(&two[0], &two[1]));
            prop_assert!(apart, "ranges that touch are one");
        }

        #[test]
        fn displayed_range_parses_to_itself(some in ranges(4)) {
            for range in some {
                let text = range.to_string();
                let read = match text.split_once('-') {
                    Some((first, last)) => Range::shown(None, Some(first), Some(last)),
                    None => Range::shown(Some(&text), None, None),
                };
                prop_assert_eq!(read, Some(range));
            }
        }
    }
}
