//! The page for people.

use super::*;

async fn page(rig: &Rig) -> String {
    let url = format!("{}/_simulator/", rig.running.control_url());
    let answer = rig.client.get(url).send().await.unwrap();
    let header = |name| answer.headers()[name].to_str().unwrap();
    assert!(header("content-type").starts_with("text/html"));
    assert!(header("content-security-policy").starts_with("default-src 'none';"));
    answer.text().await.unwrap()
}

async fn press(rig: &Rig, form: &'static str, origin: Option<&str>) -> u16 {
    let url = format!("{}/_simulator/page", rig.running.control_url());
    let request = rig.client.post(url).body(form);
    let request = match origin {
        Some(origin) => request.header("Origin", origin),
        None => request,
    };
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn it_shows_machines_money_and_requests_and_nothing_runs_in_it() {
    let rig = Rig::new().await;
    let uuid = rig.order("<script>alert(1)</script>", &["a:b"]).await;
    let shown = page(&rig).await;
    for part in [
        uuid.as_str(),
        "&lt;script&gt;",
        "created",
        "5 min 0 s",
        "bm7.std.8",
        "a:b",
        "POST /v3/flexMetal/servers",
        "Paying for 0",
    ] {
        assert!(shown.contains(part), "{part}");
    }
    for foreign in ["<script", "src=", "href=", "test-key"] {
        assert!(!shown.contains(foreign), "{foreign}");
    }
    assert_eq!(press(&rig, "advance=900", None).await, 200);
    let later = page(&rig).await;
    assert!(later.contains("delivered") && later.contains("Paying for 1"));
}

#[tokio::test]
async fn every_button_works_and_only_from_the_page_itself() {
    let rig = Rig::new().await;
    let own = rig.running.control_url();
    assert_eq!(
        press(&rig, "fault=0", Some("http://evil.example")).await,
        403
    );
    for form in ["fault=0", "fault=1", "fault=2", "fault=3"] {
        assert_eq!(press(&rig, form, Some(&own)).await, 200, "{form}");
    }
    for unknown in ["fault=9", "fault=x", "lamp=1"] {
        assert_eq!(press(&rig, unknown, None).await, 400, "{unknown}");
    }
    assert_eq!(press(&rig, "speed=60", None).await, 200);
    assert_eq!(rig.look("clock").await["speed"], 60.0);
    assert_eq!(rig.look("faults").await.as_array().unwrap().len(), 4);
    assert_eq!(press(&rig, "clear=1", None).await, 200);
    assert_eq!(rig.look("faults").await, json!([]));
}
