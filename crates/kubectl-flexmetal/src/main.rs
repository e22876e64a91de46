//! `kubectl-flexmetal`, found by kubectl as `kubectl flexmetal`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    kubectl_flexmetal::main().await
}
