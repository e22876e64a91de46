//! Pages of every listing with the header `RANGED-DATA` (section 8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, Rig, SERVERS, order, with};

const WHITELIST: &str = "/v3/account/apiKey/1/whitelist";
const HOST: &str = "/v3/host/1001";

/// More than two pages in each listing but the servers'; their paths.
async fn filled(rig: &Rig) -> Vec<String> {
    let many: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
    let uuid = rig.ordered(with("tags", json!(many))).await;
    for _ in 0..60 {
        rig.ordered(order()).await;
    }
    rig.advance(DELIVERY).await;
    let commands = format!("{SERVERS}/{uuid}/commands");
    let off = json!({"ipRange": "192.0.2.0/24", "active": 0});
    let install = json!({"os": {"id": 104}, "sshKeyId": "018f0000-0000-7000-8000-000000000000"});
    for _ in 0..60 {
        rig.call("POST", &commands, json!({"command": "reboot"}))
            .await;
        rig.call("POST", WHITELIST, off.clone()).await;
    }
    for _ in 0..20 {
        let asked = rig
            .call("POST", &format!("{HOST}/os/install"), install.clone())
            .await;
        assert_eq!(asked.0, 200);
        rig.advance(300).await;
    }
    let paths = ["/v3/flexMetal/tags", "/v3/host", WHITELIST];
    let mut all: Vec<String> = paths.map(str::to_owned).into();
    all.extend([commands, format!("{HOST}/os/installLog")]);
    all
}

cases! {
    contract_pages_of_every_listing ["4.1-2" "4.4-5" "4.5-2" "4.6-2" "4.8-2" "4.8-14" "8-4" "8-5" "8-6" "8-7" "8-8" "8-9" "8-18"] |rig| {
        let others = filled(&rig).await;
        let lists = others.iter().map(|path| (path.as_str(), 25)).chain([(SERVERS, 15)]);
        for (path, default) in lists.clone() {
            let (_, first) = rig.get(path).await;
            assert_eq!(first.as_array().unwrap().len(), default, "{path}");
            // Piece by piece the same records, and an empty page at the end.
            let mut pieces = Vec::new();
            let (_, whole) = rig.ranged(path, "start=0,results=50").await;
            for start in (0..50).step_by(10) {
                let (_, piece) = rig.ranged(path, &format!("start={start},results=10")).await;
                pieces.extend(piece.as_array().unwrap().clone());
            }
            assert_eq!(Value::Array(pieces), whole, "{path}");
            assert_eq!(whole.as_array().unwrap()[..default], first.as_array().unwrap()[..], "{path}");
            assert_eq!(rig.ranged(path, "start=1000,results=50").await, (200, json!([])), "{path}");
            for bad in ["nonsense", "start=-1,results=5", "start=0,results=-5", "start=0,results=0", "start=0,results=51", "start=1.5,results=5"] {
                assert_eq!(rig.ranged(path, bad).await.0, 422, "{path}: {bad}");
            }
        }
        rig.turn("resultsAbove50", "clamp").await;
        rig.turn("badRange", "ignore").await;
        for (path, default) in lists {
            let count = async |range: &str| rig.ranged(path, range).await.1.as_array().unwrap().len();
            assert_eq!((count("start=0,results=51").await, count("start=0,results=0").await), (50, default), "{path}");
        }
    }
}
