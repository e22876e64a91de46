//! What can be ordered: locations, plans and operating systems (sections 2.3,
//! 2.5, 2.18, 4.3 and 4.8 of `docs/contributing/hosting-api.md`).

/// A location of servers (section 2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The API's number.
    pub id: Option<i64>,
    /// The name, which an order gives as `location`.
    pub name: String,
    /// A short form of the name.
    pub short_name: String,
    /// The name for users.
    pub display_name: String,
    /// The country's number.
    pub country_id: Option<i64>,
    /// The country's name.
    pub country_name: String,
    /// The country's short name.
    pub country_short_name: String,
}

/// An instance type with its hardware and its locations (section 2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What an order gives as `instanceType`.
    pub name: String,
    /// The processors, if the answer has them.
    pub cpu: Option<Cpu>,
    /// Memory: type and gigabytes.
    pub memory: Option<HardwarePart>,
    /// Disks: type and gigabytes each.
    pub disks: Vec<HardwarePart>,
    /// Network interfaces: type and count.
    pub network_interfaces: Vec<Interfaces>,
    /// The graphics card: name and video memory.
    pub gpu: Option<HardwarePart>,
    /// Where it is offered.
    pub locations: Vec<PlanLocation>,
}

/// The processors of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// The model.
    pub name: String,
    /// Megahertz.
    pub base_clock: Option<i64>,
    /// Processors.
    pub count: Option<i64>,
    /// Cores of one processor.
    pub cores: Option<i64>,
    /// Cores of all processors.
    pub total_cores: Option<i64>,
}

/// A piece of hardware that has a kind and a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwarePart {
    /// The kind, in the API's words.
    pub kind: String,
    /// The size; the unit is with the field that holds this.
    pub size: Option<i64>,
}

/// Network interfaces of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interfaces {
    /// The kind, in the API's words.
    pub kind: String,
    /// How many.
    pub count: Option<i64>,
}

/// Availability of a plan at one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLocation {
    /// The location's name.
    pub name: String,
    /// The data centre's code.
    pub data_centre: String,
    /// How many servers are free.
    pub availability: Availability,
}

/// How many servers of a plan a location has. The words are not documented; these are the known ones (2.5-8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// `high`
    High,
    /// `medium`
    Medium,
    /// `low`
    Low,
    /// `unavailable`
    Unavailable,
    /// Another word, or none.
    Other(String),
}

impl Availability {
    /// Reads the API's word and keeps an unknown one.
    pub fn parse(word: &str) -> Self {
        match word {
            "high" => Self::High,
            "medium" => Self::Medium,
            "low" => Self::Low,
            "unavailable" => Self::Unavailable,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The API's word, unchanged.
    pub fn as_str(&self) -> &str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Unavailable => "unavailable",
            Self::Other(word) => word,
        }
    }
}

/// An operating system (2.18; its fields are not in the API's document).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatingSystem {
    /// What the installation of a dedicated host gives as `os.id`.
    pub id: Option<i64>,
    /// The name for users.
    pub name: String,
    /// What an order gives as `os.slug`; may be empty for a system that only dedicated hosts can use.
    pub slug: String,
    /// Windows, or Linux and BSD, if the answer has it.
    pub group: Option<SystemGroup>,
    /// The switch `isOdp`, whose meaning is not documented.
    pub is_odp: bool,
    /// Whether on-demand servers can use it.
    pub for_servers: bool,
    /// Whether it is offered at all.
    pub active: bool,
}

/// A group of operating systems (2.18-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemGroup {
    /// 1
    Windows,
    /// 2: Linux and BSD
    Unix,
    /// Another number.
    Other(i64),
}
