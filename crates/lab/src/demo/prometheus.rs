//! Prometheus for the demo, if it is installed: it scrapes the operator and evaluates the chart's alerts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::DemoFolder;
use crate::{
    product::{OPERATOR, OPERATOR_NAMESPACE},
    supervisor::{Supervisor, SupervisorError, on_path},
};

pub(crate) const PROMETHEUS: &str = "prometheus";
/// Names another program than the one on PATH.
const VARIABLE: &str = "PROMETHEUS";
/// The alerts of the chart.
const ALERTS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deploy/chart/files/alerts.yaml"
));

/// Why Prometheus does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrometheusError {
    #[error("cannot write the configuration of Prometheus in {path}")]
    Configuration {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Program(#[from] SupervisorError),
}

/// The program, if it is installed.
fn find() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Some(path.into()),
        None => on_path(PROMETHEUS),
    }
}

/// Starts Prometheus on this port, if it is installed. Returns its URL.
pub(crate) fn start(
    parts: &mut Supervisor,
    folder: &DemoFolder,
    metrics_port: u16,
    port: u16,
) -> Result<Option<String>, PrometheusError> {
    let Some(program) = find() else {
        return Ok(None);
    };
    let home = folder.path().join("prometheus");
    let configuration = home.join("prometheus.yml");
    fs::create_dir_all(&home)
        .and_then(|()| fs::write(home.join("alerts.yaml"), ALERTS))
        .and_then(|()| fs::write(&configuration, build_configuration(metrics_port)))
        .map_err(|source| PrometheusError::Configuration {
            path: home.clone(),
            source,
        })?;
    let mut flags = vec![
        format!("--config.file={}", configuration.display()),
        format!("--storage.tsdb.path={}", home.join("data").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
        "--log.level=warn".to_owned(),
    ];
    flags.extend(own_assets(&program));
    parts.start(PROMETHEUS, &program, &flags)?;
    Ok(Some(format!("http://127.0.0.1:{port}")))
}

/// Debian's Prometheus reads its pages from a folder. Needed where its package is unpacked somewhere else.
fn own_assets(program: &Path) -> Option<String> {
    let assets = program.parent()?.parent()?.join("share/prometheus/web");
    let is_there = assets.is_dir();
    is_there.then(|| format!("--web.local-assets={}", assets.display()))
}

fn build_configuration(metrics_port: u16) -> String {
    format!(
        "global:
  scrape_interval: 5s
  evaluation_interval: 5s
rule_files: [alerts.yaml]
scrape_configs:
- job_name: {OPERATOR}
  honor_labels: true
  static_configs:
  - targets: ['127.0.0.1:{metrics_port}']
    labels: {{namespace: {OPERATOR_NAMESPACE}}}
"
    )
}
