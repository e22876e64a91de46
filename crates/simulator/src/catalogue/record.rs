//! The catalogue's records (sections 2.3 to 2.5, and operating systems).

use serde_json::{Value, json};

use super::{Family, InstanceType, Location, OperatingSystem};

impl OperatingSystem {
    /// Whether an on-demand server can be ordered with it.
    pub(crate) fn orderable(&self) -> bool {
        self.available_for_flex_metal && self.active
    }

    /// The record of `GET /v3/operatingsystem`.
    pub(crate) fn record(&self) -> Value {
        let group = if self.family == Family::Windows { 1 } else { 2 };
        json!({
            "id": self.id,
            "name": self.name,
            "slug": self.slug,
            "osGroup": group,
            "isOdp": 0,
            "availableForFlexMetal": u8::from(self.available_for_flex_metal),
            "active": u8::from(self.active),
        })
    }
}

impl Location {
    /// The record of section 2.3.
    pub(crate) fn record(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "shortName": self.short_name,
            "displayName": self.display_name,
            "countryId": self.country_id,
            "countryName": self.country_name,
            "countryShortName": self.country_short_name,
        })
    }

    /// The location part of a plan (section 2.5).
    pub(crate) fn in_plan(&self, availability: &str) -> Value {
        json!({"name": self.name, "dcCode": self.dc_code, "availability": availability})
    }
}

impl InstanceType {
    /// The deprecated record of section 2.4.
    pub(crate) fn record(&self, location: u32) -> Value {
        let storage: u32 = self.disks.iter().map(|disk| disk.size).sum();
        json!({
            "id": self.id,
            "locationId": location,
            "name": self.name,
            "sockets": self.cpu.cpu_count,
            "cores": self.cpu.cpu_cores,
            "memory": self.memory.size,
            "memoryType": self.memory.kind,
            "storage": storage,
            "storageType": self.disks.first().map_or("", |disk| &disk.kind),
            "generationName": self.generation_name,
        })
    }

    /// The plan of section 2.5, with its locations.
    pub(crate) fn plan(&self, locations: &[Value]) -> Value {
        json!({
            "name": self.name,
            "hardwareDetails": {
                "cpu": {
                    "name": self.cpu.name,
                    "baseClock": self.cpu.base_clock,
                    "cpuCount": self.cpu.cpu_count,
                    "cpuCores": self.cpu.cpu_cores,
                    "totalCores": self.cpu.cpu_count * self.cpu.cpu_cores,
                },
                "memory": self.memory,
                "disks": self.disks,
                "networkInterfaces": self.network_interfaces,
                "gpu": self.gpu,
            },
            "locations": locations,
        })
    }

    /// What a hardware listing of such a machine says (section 2.10).
    pub(crate) fn lshw(&self, name: &str) -> Value {
        const GB: u64 = 1_000_000_000;
        let disks = self.disks.iter().enumerate().map(|(number, disk)| {
            json!({
                "id": format!("disk:{number}"), "class": "disk", "description": disk.kind,
                "units": "bytes", "size": u64::from(disk.size) * GB,
            })
        });
        let ports = self.network_interfaces.iter().flat_map(|port| {
            (0..port.count).map(|number| {
                json!({
                    "id": format!("network:{number}"), "class": "network",
                    "description": "Ethernet interface", "capacity": port.kind,
                })
            })
        });
        let processors = (0..self.cpu.cpu_count).map(|number| {
            json!({
                "id": format!("cpu:{number}"), "class": "processor", "product": self.cpu.name,
                "configuration": {"cores": self.cpu.cpu_cores.to_string()},
            })
        });
        let memory = json!({
            "id": "memory", "class": "memory", "description": self.memory.kind,
            "units": "bytes", "size": u64::from(self.memory.size) << 30,
        });
        let parts: Vec<Value> = processors
            .chain([memory])
            .chain(disks)
            .chain(ports)
            .collect();
        json!({
            "id": name, "class": "system", "product": self.name,
            "children": [{"id": "core", "class": "bus", "children": parts}],
        })
    }
}
