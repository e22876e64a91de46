//! How fast the simulator is: 10,000 machines, pages of the list, a mix of
//! requests over kept connections, and memory a machine. Prints figures.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use flexmetal_operator::simulator::{ClockMode, Options, start};
use reqwest::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

const MACHINES: usize = 10_000;
const CLIENTS: usize = 16;
const REQUESTS: usize = 50_000;
const SERVERS: &str = "/v3/flexMetal/servers";

/// Resident memory of this process, in bytes.
fn memory() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).ok_or("statm")?.parse()?;
    Ok(pages * 4_096)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // One core for clients and simulator together: the figures are the lower
    // bound of what it does alone.
    let running = start(Options {
        api_key: Some("bench".to_owned()),
        clock: ClockMode::Driven,
        ..Options::default()
    })
    .await?;
    let client = Client::builder().timeout(Duration::from_secs(60)).build()?;
    let url = format!("{}{SERVERS}", running.api_url());
    let (before, began) = (memory()?, Instant::now());
    for number in 0..MACHINES {
        let order = json!({
            "name": format!("n{number}"), "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
            "os": {"slug": "debian-13"}, "sshKey": [], "tags": ["all", format!("order-{number}")],
        });
        let request = client
            .post(&url)
            .header("PRIVATE-TOKEN", "bench")
            .json(&order);
        request.send().await?.error_for_status()?.bytes().await?;
    }
    let ordering = began.elapsed();
    let each = memory()?.saturating_sub(before) / u64::try_from(MACHINES)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{MACHINES} orders one after the other: {:.0} a second",
        10_000.0 / ordering.as_secs_f64()
    )?;
    writeln!(out, "memory: {each} bytes a machine, ledger included")?;

    for (name, query, range) in [
        ("first page", "", "start=0,results=50"),
        ("last page", "", "start=9950,results=50"),
        (
            "page by tag",
            "?tag=all&status=creating",
            "start=5000,results=50",
        ),
        ("one by tag", "?tag=order-7777", "start=0,results=50"),
    ] {
        let rounds = 500;
        let began = Instant::now();
        for _ in 0..rounds {
            let request = client
                .get(format!("{url}{query}"))
                .header("PRIVATE-TOKEN", "bench");
            request
                .header("RANGED-DATA", range)
                .send()
                .await?
                .bytes()
                .await?;
        }
        writeln!(
            out,
            "{name}: {:?} with its whole way over HTTP",
            began.elapsed() / rounds
        )?;
    }

    let began = Instant::now();
    let mut clients = JoinSet::new();
    for worker in 0..CLIENTS {
        let (client, url) = (client.clone(), url.clone());
        clients.spawn(async move {
            for number in 0..REQUESTS / CLIENTS {
                let tag = (worker * 613 + number * 7) % MACHINES;
                let request = client.get(format!("{url}?tag=order-{tag}"));
                let sent = request.header("PRIVATE-TOKEN", "bench").send().await?;
                sent.error_for_status()?.bytes().await?;
            }
            Ok::<(), reqwest::Error>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    writeln!(
        out,
        "{REQUESTS} look-ups by tag over {CLIENTS} connections: {:.0} a second",
        50_000.0 / began.elapsed().as_secs_f64()
    )?;
    drop(out);
    running.stop().await;
    Ok(())
}
