//! The curl lines of `docs/simulator.md`, as they stand there.

use tokio::process::Command;

use crate::rig::Rig;

#[tokio::test]
async fn contract_the_walk_of_the_page_works_line_by_line() {
    let rig = Rig::new().await;
    let page = include_str!("../../docs/simulator.md");
    let (_, rest) = page.split_once("```bash\n").unwrap();
    let (walk, _) = rest.split_once("```").unwrap();
    let walk = walk
        .replace("http://127.0.0.1:8480", &rig.running.api_url())
        .replace("http://127.0.0.1:8481", &rig.running.control_url())
        .replace("PRIVATE-TOKEN: demo", "PRIVATE-TOKEN: contract-key");
    // A refusal ends the walk; -s alone would hide it.
    let script = format!(
        "set -euxo pipefail\ncurl() {{ command curl --noproxy '*' --fail-with-body \"$@\"; }}\n{walk}"
    );
    let done = Command::new("bash")
        .arg("-c")
        .arg(script)
        .output()
        .await
        .unwrap();
    let (out, log) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(done.status.success(), "{out}\n{log}");
    assert!(
        out.contains("\"released\"") && out.contains("curl: 52"),
        "{out}"
    );
    // Every operation of the API is walked through.
    let ledger = rig.look("ledger/counts").await;
    for group in [
        "GET /v3/flexMetal/location",
        "GET /v3/flexMetal/plans",
        "POST /v3/flexMetal/servers",
        "PATCH /v3/flexMetal/servers/{uuid}",
        "DELETE /v3/flexMetal/servers/{uuid}",
        "POST /v3/flexMetal/servers/{uuid}/commands",
        "PUT /v3/flexMetal/tags/{tag}",
        "GET /v3/flexMetal/quota/usage",
        "GET /v3/flexMetal/usage",
        "GET /v3/flexMetal/capacity/commit",
        "POST /v3/host/{hostId}/os/install",
        "GET /v3/operatingsystem",
        "POST /v3/sshKey",
        "PUT /v3/account/password",
        "POST /v3/account/apiKey/{apiKeyId}/whitelist",
        "GET /v3/health",
    ] {
        assert!(ledger[group].is_u64(), "{group}");
    }
}
