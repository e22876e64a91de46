//! `lab page`: opens the simulator's web page in a real browser, clicks its buttons, and takes a screenshot. Or takes a
//! screenshot of another page, for the documentation.

use std::error::Error;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::{
    browser::Browser,
    ports,
    product::{Product, SIMULATOR, SimulatorAccess},
    supervisor::Supervisor,
};

const DRIVER: &str = "chromedriver";
/// Time limit of a step: a browser's first start on a busy computer.
const WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(5);
const WINDOW: (u32, u32) = (1280, 900);

#[derive(Args)]
pub(crate) struct PageArguments {
    /// ChromeDriver, which finds Chromium by itself
    #[arg(long, default_value = DRIVER)]
    driver: PathBuf,
    /// Where the picture goes
    #[arg(long, default_value = "target/page.png")]
    out: PathBuf,
    /// Only take a picture of this page
    #[arg(long, requires = "shows")]
    url: Option<String>,
    /// XPath of an element that the page must show first
    #[arg(long)]
    shows: Option<String>,
}

/// Why the check of the page failed.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("ChromeDriver did not accept connections within {} s", WITHIN.as_secs())]
    Silent,
    #[error("the page did not show {path} within {} s", WITHIN.as_secs())]
    NotShown { path: String },
    #[error("{path} is not a picture of {} by {} pixels", WINDOW.0, WINDOW.1)]
    NoPicture { path: PathBuf },
}

/// Starts simulator and browser, checks the page, and ends both.
pub(crate) async fn run(arguments: PageArguments) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::Builder::new()
        .prefix("flexmetal-page-")
        .tempdir()?;
    let mut parts = Supervisor::new(folder.path().to_owned());
    let seen = check_page(&arguments, folder.path(), &mut parts).await;
    parts.end(&[DRIVER, SIMULATOR], TIMEOUT).await;
    seen?;
    writeln!(std::io::stdout(), "{}", arguments.out.display())?;
    Ok(())
}

async fn check_page(
    arguments: &PageArguments,
    folder: &Path,
    parts: &mut Supervisor,
) -> Result<(), Box<dyn Error>> {
    let [port] = ports::free()?;
    parts.start(DRIVER, &arguments.driver, &[format!("--port={port}")])?;
    listens(port).await?;
    let browser = Browser::open(port, &folder.join("profile"), WINDOW).await?;
    let seen = match (&arguments.url, &arguments.shows) {
        (Some(url), Some(element)) => visit_other(&browser, url, element, &arguments.out).await,
        _ => visit(&browser, parts, &arguments.out).await,
    };
    browser.close().await?;
    seen
}

/// Takes a picture of another page once it shows this element.
async fn visit_other(
    browser: &Browser,
    url: &str,
    element: &str,
    out: &Path,
) -> Result<(), Box<dyn Error>> {
    browser.go_to(url).await?;
    shows(browser, element).await?;
    picture(browser, out).await
}

/// Orders a server with a plain HTTP request.
async fn order(simulator: &SimulatorAccess, name: &str) -> Result<(), Box<dyn Error>> {
    let order = json!({
        "name": name, "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": [], "tags": ["team:web"],
    });
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(TIMEOUT)
        .build()?;
    let request = client
        .post(format!("{}/v3/flexMetal/servers", simulator.api))
        .header("PRIVATE-TOKEN", &simulator.api_key);
    request.json(&order).send().await?.error_for_status()?;
    Ok(())
}

/// Waits until ChromeDriver accepts connections.
async fn listens(port: u16) -> Result<(), PageError> {
    let deadline = Instant::now() + WITHIN;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .is_err()
    {
        if Instant::now() >= deadline {
            return Err(PageError::Silent);
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Checks what the page shows and what each kind of button does.
async fn visit(
    browser: &Browser,
    parts: &mut Supervisor,
    out: &Path,
) -> Result<(), Box<dyn Error>> {
    let flags = ["--clock=driven", "--delivery-seconds=300", "--seed=1"];
    let simulator = &Product::find()?.start_simulator(parts, &flags).await?;
    order(simulator, "web-1").await?;
    browser
        .go_to(&format!("{}/_simulator/", simulator.control))
        .await?;
    shows(browser, "//h1[text()='Hosting API simulator']").await?;
    shows(browser, &server_row("web-1", "created")).await?;
    press(browser, "+15 minutes").await?;
    shows(browser, &server_row("web-1", "delivered")).await?;
    shows(browser, "//p[contains(., 'Paying for 1 machines')]").await?;

    press(browser, "Let the next delivery fail").await?;
    shows(browser, "//p[contains(., '1 fault rules')]").await?;
    order(simulator, "web-2").await?;
    press(browser, "+15 minutes").await?;
    shows(browser, &server_row("web-2", "failed")).await?;
    press(browser, "Drop all faults").await?;
    shows(browser, "//p[contains(., '0 fault rules')]").await?;
    order(simulator, "web-3").await?;
    press(browser, "Real speed").await?;
    shows(browser, "//p[contains(., '1 times real speed')]").await?;
    shows(browser, &server_row("web-3", "created")).await?;
    picture(browser, out).await
}

/// The XPath of a server's row with this state.
fn server_row(name: &str, state: &str) -> String {
    format!("//tr[td[1]='{name}' and td[@class='{state}']='{state}']")
}

async fn press(browser: &Browser, label: &str) -> Result<(), Box<dyn Error>> {
    browser
        .press(&format!("//button[text()='{label}']"))
        .await?;
    Ok(())
}

/// Waits until the page shows a visible element.
async fn shows(browser: &Browser, path: &str) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        // An error means that the element is missing or belongs to the previous page.
        if matches!(browser.shows(path).await, Ok(true)) {
            return Ok(());
        }
        sleep(POLL).await;
    }
    Err(PageError::NotShown {
        path: path.to_owned(),
    }
    .into())
}

/// Takes the screenshot, and checks that it is a PNG of the window's width.
async fn picture(browser: &Browser, out: &Path) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let png = browser.picture().await?;
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
