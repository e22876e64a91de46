//! `lab page`: opens the simulator's page for people in a real browser, presses
//! its buttons as a person would, and takes a picture of it.

use std::error::Error;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::{By, DesiredCapabilities, WebDriver};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::ports;
use crate::product::{Product, SIMULATOR, Simulator};
use crate::supervisor::Supervisor;

const DRIVER: &str = "chromedriver";
/// A browser's first start on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);
const WINDOW: (u32, u32) = (1280, 900);

#[derive(Args)]
pub(crate) struct Arguments {
    /// ChromeDriver, which finds Chromium by itself
    #[arg(long, default_value = DRIVER)]
    driver: PathBuf,
    /// Where the picture goes
    #[arg(long, default_value = "target/page.png")]
    out: PathBuf,
}

/// What is wrong with the page, or kept it from being seen.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("ChromeDriver takes no connections within {} s", WITHIN.as_secs())]
    Silent,
    #[error("the page does not show {path} within {} s", WITHIN.as_secs())]
    NotShown { path: String },
    #[error("{path} is no picture of {} by {} pixels", WINDOW.0, WINDOW.1)]
    NoPicture { path: PathBuf },
}

/// Starts simulator and browser, looks, and ends both.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::Builder::new()
        .prefix("flexmetal-page-")
        .tempdir()?;
    let mut parts = Supervisor::new(folder.path().to_owned());
    let seen = look(&arguments, folder.path(), &mut parts).await;
    parts.end(&[DRIVER, SIMULATOR], PATIENCE).await;
    seen?;
    writeln!(std::io::stdout(), "{}", arguments.out.display())?;
    Ok(())
}

async fn look(
    arguments: &Arguments,
    folder: &Path,
    parts: &mut Supervisor,
) -> Result<(), Box<dyn Error>> {
    let flags = ["--clock=driven", "--delivery-seconds=300", "--seed=1"];
    let simulator = Product::find()?.start_simulator(parts, &flags).await?;
    order(&simulator, "web-1").await?;

    let [port] = ports::free()?;
    parts.start(DRIVER, &arguments.driver, &[format!("--port={port}")])?;
    let driver = open(port, &folder.join("profile")).await?;
    let seen = visit(&driver, &simulator, &arguments.out).await;
    // Ends the browser; without it the driver would leave it behind.
    driver.quit().await?;
    seen
}

/// Orders a server with plain HTTP, as a script would.
async fn order(simulator: &Simulator, name: &str) -> Result<(), Box<dyn Error>> {
    let order = json!({
        "name": name, "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": [], "tags": ["team:web"],
    });
    let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
    let request = client
        .post(format!("{}/v3/flexMetal/servers", simulator.api))
        .header("PRIVATE-TOKEN", &simulator.api_key);
    request.json(&order).send().await?.error_for_status()?;
    Ok(())
}

/// Starts a browser that asks nobody on the network for anything.
async fn open(port: u16, profile: &Path) -> Result<WebDriver, Box<dyn Error>> {
    let mut wishes = DesiredCapabilities::chrome();
    for flag in [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-proxy-server",
        "--force-device-scale-factor=1",
        &format!("--user-data-dir={}", profile.display()),
        &format!("--window-size={},{}", WINDOW.0, WINDOW.1),
    ] {
        wishes.add_arg(flag)?;
    }
    let deadline = Instant::now() + WITHIN;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .is_err()
    {
        if Instant::now() >= deadline {
            return Err(PageError::Silent.into());
        }
        sleep(POLL).await;
    }
    Ok(WebDriver::new(format!("http://127.0.0.1:{port}"), wishes).await?)
}

/// Walks over the page: what it shows, what each kind of button does.
async fn visit(
    driver: &WebDriver,
    simulator: &Simulator,
    out: &Path,
) -> Result<(), Box<dyn Error>> {
    driver
        .goto(format!("{}/_simulator/", simulator.control))
        .await?;
    shows(driver, "//h1[text()='Hosting API simulator']").await?;
    shows(driver, &machine("web-1", "created")).await?;
    press(driver, "+15 minutes").await?;
    shows(driver, &machine("web-1", "delivered")).await?;
    shows(driver, "//p[contains(., 'Paying for 1 machines')]").await?;

    press(driver, "Let the next delivery fail").await?;
    shows(driver, "//p[contains(., '1 fault rules')]").await?;
    order(simulator, "web-2").await?;
    press(driver, "+15 minutes").await?;
    shows(driver, &machine("web-2", "failed")).await?;
    press(driver, "Drop all faults").await?;
    shows(driver, "//p[contains(., '0 fault rules')]").await?;
    order(simulator, "web-3").await?;
    press(driver, "Real speed").await?;
    shows(driver, "//p[contains(., '1 times real speed')]").await?;
    shows(driver, &machine("web-3", "created")).await?;
    picture(driver, out).await
}

/// The row of a machine in that state.
fn machine(name: &str, state: &str) -> String {
    format!("//tr[td[1]='{name}' and td[@class='{state}']='{state}']")
}

async fn press(driver: &WebDriver, label: &str) -> Result<(), Box<dyn Error>> {
    let button = driver
        .find(By::XPath(format!("//button[text()='{label}']")))
        .await?;
    button.click().await?;
    Ok(())
}

/// Waits until the page shows an element with a place on the screen.
async fn shows(driver: &WebDriver, path: &str) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Ok(element) = driver.find(By::XPath(path)).await
            && matches!(element.is_displayed().await, Ok(true))
        {
            return Ok(());
        }
        sleep(POLL).await;
    }
    Err(PageError::NotShown {
        path: path.to_owned(),
    }
    .into())
}

/// Takes the picture and looks at its head: a PNG of the window's width.
async fn picture(driver: &WebDriver, out: &Path) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let png = driver.screenshot_as_png().await?;
    std::fs::write(out, &png)?;
    let is_png = png.starts_with(b"\x89PNG\r\n\x1a\n");
    let width = png.get(16..20).and_then(|width| width.try_into().ok());
    if !is_png || width.map(u32::from_be_bytes) != Some(WINDOW.0) {
        return Err(PageError::NoPicture {
            path: out.to_owned(),
        }
        .into());
    }
    Ok(())
}
