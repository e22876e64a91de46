//! Locations, instance types, plans, operating systems (sections 4.3 and 4.8).

use serde_json::json;

use crate::cases;
use crate::rig::{SERVERS, all, names, shape, with};

cases! {
    contract_locations ["2.3-1" "2.3-2" "2.3-3" "2.3-4" "2.3-5" "2.3-6" "2.3-7" "2.3-8" "2.3-9" "4.3-1" "4.3-5"] |rig| {
        let (status, list) = rig.get("/v3/flexMetal/location").await;
        assert_eq!(status, 200);
        all(&list, "id:i name:s shortName:s displayName:s countryId:i countryName:s countryShortName:s");
        let known = names(&list, "name");
        for name in ["EU: Rotterdam", "EU: Montreuil 1", "US: Ashburn - VA", "US: Dallas - TX",
            "US: Los Angeles - CA", "JP: Tokyo", "HK: Hong Kong", "BR: Sao Paulo", "AE: Dubai", "AU: Sydney"] {
            assert!(known.contains(&name), "{name}");
        }
        assert_eq!(rig.ranged("/v3/flexMetal/location", "start=0,results=1").await.1, list);
        rig.refused("POST", "/v3/flexMetal/location", json!({}), 405).await;
    }

    contract_instance_types ["2.4-1" "2.4-2" "2.4-3" "2.4-4" "2.4-5" "2.4-6" "2.4-7" "2.4-8" "2.4-9" "2.4-10" "2.4-11"
        "2.4-12" "2.4-13" "2.4-14" "2.4-15" "4.3-2" "4.3-3" "4.3-6" "9-2"] |rig| {
        let at = async |id: &str| rig.get(&format!("/v3/flexMetal/location/{id}/instanceTypes")).await;
        let (status, list) = at("6").await;
        assert_eq!(status, 200);
        all(&list, "id:i locationId:i name:s sockets:i cores:i memory:i memoryType:s storage:i storageType:s generationName:s");
        let known = names(&list, "name");
        for name in ["bm7.std.8", "bm7.hmm.8", "bm8.std.32", "bm9.hmm.32", "bm9.std.32", "bm9.hmm.12", "bm9.hmm.gpu.4rtx4000.64"] {
            assert!(known.contains(&name), "{name}");
        }
        let smallest = list.as_array().unwrap().iter().find(|kind| kind["name"] == "bm7.std.8").unwrap();
        assert_eq!((&smallest["locationId"], &smallest["memory"], &smallest["storage"]), (&json!(6), &json!(32), &json!(960)));
        assert_ne!(at("30").await.1.as_array().unwrap().len(), known.len());
        assert_eq!(at("7").await.0, 404);
        assert_eq!(at("here").await.0, 404);
        rig.refused("PUT", "/v3/flexMetal/location/6/instanceTypes", json!({}), 405).await;
    }

    contract_plans ["2.5-1" "2.5-2" "2.5-3" "2.5-4" "2.5-5" "2.5-6" "2.5-7" "2.5-8" "2.5-9" "2.5-10" "2.5-11" "2.5-12" "4.3-4"] |rig| {
        let (status, list) = rig.get("/v3/flexMetal/plans").await;
        assert_eq!(status, 200);
        all(&list, "name:s hardwareDetails:o locations:a");
        let mut words = std::collections::BTreeSet::new();
        let mut parts = std::collections::BTreeSet::new();
        for plan in list.as_array().unwrap() {
            let hardware = &plan["hardwareDetails"];
            shape(hardware, "cpu:o memory:o disks:a networkInterfaces:a gpu:no");
            shape(&hardware["cpu"], "name:s baseClock:i cpuCount:i cpuCores:i totalCores:i");
            shape(&hardware["memory"], "type:s size:i");
            assert_eq!(hardware["memory"]["type"], "ddr4");
            all(&hardware["disks"], "type:s size:i");
            all(&hardware["networkInterfaces"], "type:s count:i");
            assert_eq!(hardware["gpu"].is_object(), plan["name"].as_str().unwrap().contains("gpu"));
            if hardware["gpu"].is_object() {
                shape(&hardware["gpu"], "name:s vram:i");
            }
            all(&plan["locations"], "name:s dcCode:s availability:s");
            words.extend(names(&plan["locations"], "availability"));
            parts.extend(names(&hardware["disks"], "type"));
            parts.extend(names(&hardware["networkInterfaces"], "type"));
        }
        let known = ["high", "medium", "low", "unavailable"];
        assert!(words.len() > 2 && words.iter().all(|word| known.contains(word)), "{words:?}");
        assert_eq!(parts.into_iter().collect::<Vec<_>>(), ["1 Gbps", "10 Gbps", "25 Gbps", "nvme", "ssd"]);
        assert_eq!(list[0]["locations"][0]["dcCode"], "nlrtm1");
        assert_eq!((&list[0]["hardwareDetails"]["memory"]["size"], &list[0]["hardwareDetails"]["disks"][0]), (&json!(32), &json!({"type": "ssd", "size": 960})));
        assert_eq!(list[0]["hardwareDetails"]["cpu"]["baseClock"], 3_700);
    }

    contract_operating_systems ["2.18-1" "2.18-2" "2.18-3" "2.18-4" "2.18-5" "2.18-6" "2.18-7" "2.8-2" "2.8-3" "4.8-18"] |rig| {
        let (status, list) = rig.get("/v3/operatingsystem").await;
        assert_eq!(status, 200);
        all(&list, "id:i name:s slug:s osGroup:i isOdp:i availableForFlexMetal:i active:i");
        let slugs = names(&list, "slug");
        for slug in ["ubuntu-2204-lts", "ubuntu-2404-lts", "talos-omni-1110", "debian-13", "debian-12", "custom-ipxe"] {
            assert!(slugs.contains(&slug), "{slug}");
        }
        let of = |slug: &str| {
            let found = list.as_array().unwrap().iter().find(|one| one["slug"] == slug).unwrap();
            ["osGroup", "availableForFlexMetal", "active"].map(|field| found[field].as_u64().unwrap())
        };
        assert_eq!((of("windows-2022"), of("debian-13")), ([1, 1, 1], [2, 1, 1]));
        assert_eq!((of("freebsd-14"), of("debian-11")), ([2, 0, 1], [2, 1, 0]));
        assert!(list.as_array().unwrap().iter().all(|one| one["isOdp"].as_u64().unwrap() <= 1));
        // Not for servers, and not at all.
        for slug in ["freebsd-14", "debian-11"] {
            rig.refused("POST", SERVERS, with("os", json!({"slug": slug})), 422).await;
        }
        let install = |id: u32| json!({"os": {"id": id}, "sshKeyId": "018f0000-0000-7000-8000-000000000000"});
        rig.refused("POST", "/v3/host/1001/os/install", install(142), 422).await;
        assert_eq!(rig.call("POST", "/v3/host/1001/os/install", install(141)).await.0, 200);
        assert_eq!(rig.ranged("/v3/operatingsystem", "start=0,results=1").await.1, list);
    }
}
