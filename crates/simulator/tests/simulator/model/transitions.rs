//! What may happen next: drawn from things that exist, and from some that do not.

use proptest::prelude::*;
use proptest::sample::select;

use super::marks::PREFIX;
use super::world::{Expected, OFFERS, World};

/// An order; `spoilt` breaks a rule of its body.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) name: &'static str,
    pub(crate) offer: usize,
    pub(crate) tags: Vec<String>,
    pub(crate) contract: Option<&'static str>,
    pub(crate) overflow: bool,
    pub(crate) fails: bool,
    pub(crate) spoilt: Option<Spoilt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoilt {
    NoJson,
    UnknownPlace,
    InvalidTag,
    InvalidContract,
}

/// A request, or an action at the control port. Machines, keys and entries are
/// numbered in order of creation; a number too high names nothing.
#[derive(Clone, Debug)]
pub(crate) enum Transition {
    Order(Order),
    /// The same order again and again.
    Fleet(usize, Order),
    Release(usize),
    Advance(u64),
    PutTag(usize, String),
    TakeTag(usize, String),
    CreateTag(String),
    RenameTag(String, String),
    DeleteTag(String),
    /// Offer, contract or none, quota.
    Quota(usize, &'static str, usize),
    /// Offer, and how many more can be ordered.
    Stock(usize, Option<usize>),
    Command(usize, &'static str, bool),
    Reinstall(usize, &'static str, bool),
    StoreKey(&'static str),
    DeleteKey(usize),
    Allow(&'static str, bool),
    ChangeEntry(usize, &'static str, bool),
    Disallow(usize),
    /// Asks for a listing by status and tags, in pages of this size; 0 sends no header.
    List(&'static str, Vec<String>, usize),
    /// Asks for more than a page may hold.
    LongPage(usize),
    /// Compares everything.
    Look,
    Restart,
}

/// What a status filter can be, after none.
pub(crate) const FILTERS: [&str; 6] = [
    "creating",
    "provisioning",
    "delivered",
    "failed",
    "releasing",
    "released",
];

/// Names that cases use over and over: two marks, one of them tried twice.
pub(crate) fn vocabulary() -> Vec<String> {
    let mark = |letter: &str, number: &str| format!("{PREFIX}{}{number}", letter.repeat(44));
    let words = ["a", "b", "c", "team:web", "x_1-2"].map(str::to_owned);
    let marks = [
        mark("a", "00000001"),
        mark("a", "00000002"),
        mark("b", "00000001"),
    ];
    words.into_iter().chain(marks).collect()
}

fn filler() -> impl Strategy<Value = String> {
    (0..62_u32).prop_map(|number| format!("f{number}"))
}

/// A tag for a path or a body; some break the rule.
fn tag() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => select(vocabulary()),
        2 => filler(),
        1 => select(vec!["bad.tag".to_owned(), "x".repeat(65), "never".to_owned()]),
    ]
}

fn tags() -> impl Strategy<Value = Vec<String>> {
    let fillers = |count: u32| (0..count).map(|number| format!("f{number}")).collect();
    prop_oneof![
        12 => prop::sample::subsequence(vocabulary(), 0..=3),
        1 => (57..=61_u32).prop_map(fillers),
    ]
}

fn order() -> impl Strategy<Value = Order> {
    let contract = prop_oneof![
        3 => Just(None),
        3 => select(vec!["C-1", "C-2"]).prop_map(Some),
        1 => select(vec!["", "C-3"]).prop_map(Some),
    ];
    let spoilt = prop_oneof![
        12 => Just(None),
        1 => select(vec![
            Spoilt::NoJson,
            Spoilt::UnknownPlace,
            Spoilt::InvalidTag,
            Spoilt::InvalidContract,
        ])
        .prop_map(Some),
    ];
    (
        select(vec!["web-1", "web-2"]),
        0..OFFERS.len(),
        tags(),
        contract,
        any::<bool>(),
        prop::bool::weighted(0.15),
        spoilt,
    )
        .prop_map(
            |(name, offer, tags, contract, overflow, fails, spoilt)| Order {
                name,
                offer,
                tags,
                contract,
                overflow,
                fails,
                spoilt,
            },
        )
}

/// A number of something of which there are `count`, or of nothing.
fn number(count: usize) -> BoxedStrategy<usize> {
    let last = count.saturating_sub(4);
    prop_oneof![4 => 0..count.max(1), 4 => last..count.max(1), 1 => Just(count)].boxed()
}

fn seconds() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => select(vec![1, 4, 5, 9, 10, 119, 120, 299, 300, 301]),
        2 => 0..400_u64,
        1 => 0..20_000_u64,
    ]
}

/// What may happen in this world.
pub(crate) fn next(world: &World) -> BoxedStrategy<Transition> {
    use Transition as T;
    let machine = || number(world.machines.len());
    let word = select(vec![
        "reboot",
        "power_on",
        "power_off",
        "shutdown",
        "reboot",
        "update-server",
        "dance",
    ]);
    let entry = || {
        // Active entries always include us: a case that locks itself out sees nothing more.
        select(vec![
            ("127.0.0.0/8", true),
            ("10.0.0.0/8", false),
            ("127.0.0.0/8", false),
        ])
    };
    let contract = select(vec!["", "", "C-1", "C-2", "C-3"]);
    let free = prop_oneof![Just(None), (0..60_usize).prop_map(Some)];
    let some_tags = prop::collection::vec(tag(), 0..3);
    let filter = prop_oneof![Just(""), select(FILTERS.to_vec())];
    let restart = if world.setup.kept {
        T::Restart
    } else {
        T::Look
    };
    let machines = prop_oneof![
        8 => order().prop_map(T::Order),
        1 => (2..25_usize, order()).prop_map(|(count, order)| T::Fleet(count, order)),
        5 => machine().prop_map(T::Release),
        7 => seconds().prop_map(T::Advance),
        3 => (machine(), word, prop::bool::weighted(0.2))
            .prop_map(|(place, word, fails)| T::Command(place, word, fails)),
        2 => (machine(), select(vec!["debian-13", "ubuntu-2404-lts"]), any::<bool>())
            .prop_map(|(place, slug, fails)| T::Reinstall(place, slug, fails)),
    ];
    let tagging = prop_oneof![
        4 => (machine(), tag()).prop_map(|(place, tag)| T::PutTag(place, tag)),
        3 => (machine(), tag()).prop_map(|(place, tag)| T::TakeTag(place, tag)),
        1 => tag().prop_map(T::CreateTag),
        2 => (tag(), tag()).prop_map(|(tag, name)| T::RenameTag(tag, name)),
        1 => tag().prop_map(T::DeleteTag),
    ];
    let rest = prop_oneof![
        2 => (0..OFFERS.len(), contract, 0..6_usize)
            .prop_map(|(offer, contract, quota)| T::Quota(offer, contract, quota)),
        2 => (0..OFFERS.len(), free).prop_map(|(offer, free)| T::Stock(offer, free)),
        1 => select(vec!["me", "you"]).prop_map(T::StoreKey),
        1 => number(world.ssh_keys.len()).prop_map(T::DeleteKey),
        1 => entry().prop_map(|(range, active)| T::Allow(range, active)),
        1 => (number(world.whitelist.len()), entry())
            .prop_map(|(place, (range, active))| T::ChangeEntry(place, range, active)),
        1 => number(world.whitelist.len()).prop_map(T::Disallow),
        4 => (filter, some_tags, 0..8_usize)
            .prop_map(|(status, tags, page)| T::List(status, tags, page)),
        1 => (51..200_usize).prop_map(T::LongPage),
        1 => Just(T::Look),
        2 => Just(restart),
    ];
    prop_oneof![5 => machines, 3 => tagging, 3 => rest].boxed()
}

/// Whether it can happen here: shrinking takes the state file away.
pub(crate) fn possible(world: &World, transition: &Transition) -> bool {
    world.setup.kept || !matches!(transition, Transition::Restart)
}

impl World {
    /// The world after it, and what it has to be answered with.
    pub(crate) fn after(mut self, transition: &Transition) -> Self {
        use Transition as T;
        let expected = match transition {
            T::Order(order) => vec![self.order(order)],
            T::Fleet(count, order) => (0..*count).map(|_| self.order(order)).collect(),
            T::Release(place) => vec![self.release(*place)],
            T::PutTag(place, tag) => vec![self.put_tag(*place, tag)],
            T::TakeTag(place, tag) => vec![self.take_tag(*place, tag)],
            T::CreateTag(tag) => vec![self.create_tag(tag)],
            T::RenameTag(tag, name) => vec![self.rename_tag(tag, name)],
            T::DeleteTag(tag) => vec![self.delete_tag(tag)],
            T::Command(place, word, fails) => vec![self.command(*place, word, *fails)],
            T::Reinstall(place, slug, fails) => vec![self.reinstall(*place, slug, *fails)],
            T::StoreKey(name) => vec![self.store_key(name)],
            T::DeleteKey(place) => vec![self.delete_key(*place)],
            T::Allow(range, active) => vec![self.allow(range, *active)],
            T::ChangeEntry(place, range, active) => {
                vec![self.change_entry(*place, range, *active)]
            }
            T::Disallow(place) => vec![self.disallow(*place)],
            T::LongPage(_) if self.is("resultsAbove50", "refuse422") => {
                vec![Expected::refused(422)]
            }
            T::Advance(seconds) => {
                self.advance(*seconds);
                Vec::new()
            }
            T::Quota(offer, contract, quota) => {
                self.set_quota(*offer, contract, *quota);
                Vec::new()
            }
            T::Stock(offer, free) => {
                let taken = self.taken(*offer, "");
                self.stock[*offer] = free.map(|free| free + taken);
                Vec::new()
            }
            T::LongPage(_) | T::List(..) | T::Look | T::Restart => Vec::new(),
        };
        self.expected = expected;
        self.watch();
        self
    }
}
