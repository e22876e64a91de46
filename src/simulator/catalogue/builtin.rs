//! The built-in catalogue. Names are those of the API; hardware and stock are
//! our choice, made so that availability differs from place to place.

use super::{Catalogue, Family, InstanceType, Location, Offer, OperatingSystem};

const fn place(
    id: u32,
    name: &'static str,
    short_name: &'static str,
    display_name: &'static str,
    country: (u32, &'static str, &'static str),
    data_centre: &'static str,
) -> Location {
    Location {
        id,
        name,
        short_name,
        display_name,
        country,
        data_centre,
    }
}

const US: (u32, &str, &str) = (225, "United States", "US");

static LOCATIONS: &[Location] = &[
    place(
        6,
        "EU: Rotterdam",
        "rtm",
        "Rotterdam",
        (148, "Netherlands", "NL"),
        "nlrtm1",
    ),
    place(
        31,
        "EU: Montreuil 1",
        "mtl",
        "Montreuil",
        (73, "France", "FR"),
        "frmtl1",
    ),
    place(11, "US: Ashburn - VA", "ash", "Ashburn", US, "usqas1"),
    place(25, "US: Dallas - TX", "dal", "Dallas", US, "usdal1"),
    place(
        26,
        "US: Los Angeles - CA",
        "lax",
        "Los Angeles",
        US,
        "uslax1",
    ),
    place(
        28,
        "JP: Tokyo",
        "tyo",
        "Tokyo",
        (107, "Japan", "JP"),
        "jptyo1",
    ),
    place(
        19,
        "HK: Hong Kong",
        "hkg",
        "Hong Kong",
        (96, "Hong Kong", "HK"),
        "hkhkg1",
    ),
    place(
        29,
        "BR: Sao Paulo",
        "sao",
        "Sao Paulo",
        (30, "Brazil", "BR"),
        "brsao1",
    ),
    place(
        30,
        "AE: Dubai",
        "dxb",
        "Dubai",
        (2, "United Arab Emirates", "AE"),
        "aedxb1",
    ),
    place(
        21,
        "AU: Sydney",
        "syd",
        "Sydney",
        (13, "Australia", "AU"),
        "ausyd1",
    ),
];

static TWO_GIGABIT: &[(&str, u32)] = &[("1 Gbps", 2)];
static TWO_TEN: &[(&str, u32)] = &[("10 Gbps", 2)];
static TWO_TWENTY_FIVE: &[(&str, u32)] = &[("25 Gbps", 2)];

static INSTANCE_TYPES: &[InstanceType] = &[
    InstanceType {
        id: 1,
        name: "bm7.std.8",
        cpu: "Intel Xeon E-2288G",
        base_clock: 3_700,
        sockets: 1,
        cores: 8,
        memory: 32,
        disks: &[("ssd", 960)],
        network: TWO_GIGABIT,
        gpu: None,
        generation: "bm7",
    },
    InstanceType {
        id: 2,
        name: "bm7.hmm.8",
        cpu: "Intel Xeon E-2288G",
        base_clock: 3_700,
        sockets: 1,
        cores: 8,
        memory: 128,
        disks: &[("ssd", 960)],
        network: TWO_GIGABIT,
        gpu: None,
        generation: "bm7",
    },
    InstanceType {
        id: 3,
        name: "bm8.std.32",
        cpu: "AMD EPYC 7502P",
        base_clock: 2_500,
        sockets: 1,
        cores: 32,
        memory: 128,
        disks: &[("nvme", 960)],
        network: TWO_TEN,
        gpu: None,
        generation: "bm8",
    },
    InstanceType {
        id: 4,
        name: "bm9.hmm.32",
        cpu: "AMD EPYC 7543P",
        base_clock: 2_800,
        sockets: 1,
        cores: 32,
        memory: 512,
        disks: &[("nvme", 1_920), ("nvme", 1_920)],
        network: TWO_TWENTY_FIVE,
        gpu: None,
        generation: "bm9",
    },
    InstanceType {
        id: 5,
        name: "bm9.std.32",
        cpu: "AMD EPYC 7543P",
        base_clock: 2_800,
        sockets: 1,
        cores: 32,
        memory: 256,
        disks: &[("nvme", 1_920)],
        network: TWO_TWENTY_FIVE,
        gpu: None,
        generation: "bm9",
    },
    InstanceType {
        id: 6,
        name: "bm9.hmm.12",
        cpu: "AMD Ryzen 9 5900X",
        base_clock: 3_700,
        sockets: 1,
        cores: 12,
        memory: 128,
        disks: &[("nvme", 960)],
        network: TWO_TEN,
        gpu: None,
        generation: "bm9",
    },
    InstanceType {
        id: 7,
        name: "bm9.hmm.gpu.4rtx4000.64",
        cpu: "AMD EPYC 7763",
        base_clock: 2_450,
        sockets: 1,
        cores: 64,
        memory: 512,
        disks: &[("nvme", 3_840)],
        network: TWO_TWENTY_FIVE,
        gpu: Some(("RTX 4000 Ada", 20)),
        generation: "bm9",
    },
];

const fn system(
    id: u32,
    name: &'static str,
    slug: &'static str,
    family: Family,
) -> OperatingSystem {
    OperatingSystem {
        id,
        name,
        slug,
        family,
        for_servers: true,
        active: true,
    }
}

static SYSTEMS: &[OperatingSystem] = &[
    system(101, "Ubuntu 22.04 LTS", "ubuntu-2204-lts", Family::Linux),
    system(102, "Ubuntu 24.04 LTS", "ubuntu-2404-lts", Family::Linux),
    system(103, "Debian 12", "debian-12", Family::Linux),
    system(104, "Debian 13", "debian-13", Family::Linux),
    system(111, "Talos Omni 1.7.7", "talos-omni-177", Family::Talos),
    system(112, "Talos Omni 1.8.4", "talos-omni-184", Family::Talos),
    system(113, "Talos Omni 1.9.0", "talos-omni-190", Family::Talos),
    system(114, "Talos Omni 1.11.0", "talos-omni-1110", Family::Talos),
    system(115, "Talos Omni 1.11.6", "talos-omni-1116", Family::Talos),
    system(116, "Talos Omni 1.12.3", "talos-omni-1123", Family::Talos),
    system(121, "Windows Server 2022", "windows-2022", Family::Windows),
    system(131, "Custom iPXE", "custom-ipxe", Family::CustomIpxe),
    // One that is only for dedicated hosts, and one that is no longer offered:
    // a client has to look at both flags.
    OperatingSystem {
        id: 141,
        name: "FreeBSD 14",
        slug: "freebsd-14",
        family: Family::Linux,
        for_servers: false,
        active: true,
    },
    OperatingSystem {
        id: 142,
        name: "Debian 11",
        slug: "debian-11",
        family: Family::Linux,
        for_servers: true,
        active: false,
    },
];

/// Places with what they offer, and how many machines stand there where they
/// are few. Rotterdam has plenty of all, so that large runs are never short.
fn stock(location: &str, instance_type: &str) -> Option<Option<usize>> {
    let plenty = Some(None);
    let few = |number| Some(Some(number));
    match (location, instance_type) {
        ("nlrtm1", _) => plenty,
        (_, "bm9.hmm.gpu.4rtx4000.64") => match location {
            "usqas1" => few(3),
            "jptyo1" => few(0),
            _ => None,
        },
        ("aedxb1" | "brsao1", "bm7.std.8" | "bm8.std.32") => few(12),
        ("aedxb1" | "brsao1", "bm9.std.32") => few(0),
        ("aedxb1" | "brsao1", _) => None,
        ("hkhkg1", "bm7.hmm.8") => few(2),
        _ => plenty,
    }
}

pub(super) fn catalogue() -> Catalogue {
    let mut offers = Vec::new();
    for place in LOCATIONS {
        for kind in INSTANCE_TYPES {
            if let Some(machines) = stock(place.data_centre, kind.name) {
                offers.push((
                    Offer {
                        location: place.id,
                        instance_type: kind.id,
                    },
                    machines,
                ));
            }
        }
    }
    Catalogue {
        locations: LOCATIONS,
        instance_types: INSTANCE_TYPES,
        systems: SYSTEMS,
        offers,
    }
}
