apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: flexmetal
spec:
  version: v@VERSION@
  homepage: @HOMEPAGE@
  shortDescription: Ask and act on paid bare-metal servers
  description: |
    Shows what the servers of flexmetal-operator cost, wait for and need:
    status, explain, catalog, plan, import, orphans, acknowledge, doctor.
    It asks before an action costs money or erases data.

    The operator must be installed in the cluster for most commands.
  platforms:
    - selector:
        matchLabels: {os: linux, arch: amd64}
      uri: @DOWNLOADS@/kubectl-flexmetal-linux-amd64.tar.gz
      sha256: @SHA256 kubectl-flexmetal-linux-amd64.tar.gz@
      bin: kubectl-flexmetal
    - selector:
        matchLabels: {os: linux, arch: arm64}
      uri: @DOWNLOADS@/kubectl-flexmetal-linux-arm64.tar.gz
      sha256: @SHA256 kubectl-flexmetal-linux-arm64.tar.gz@
      bin: kubectl-flexmetal
    - selector:
        matchLabels: {os: darwin, arch: amd64}
      uri: @DOWNLOADS@/kubectl-flexmetal-darwin-amd64.tar.gz
      sha256: @SHA256 kubectl-flexmetal-darwin-amd64.tar.gz@
      bin: kubectl-flexmetal
    - selector:
        matchLabels: {os: darwin, arch: arm64}
      uri: @DOWNLOADS@/kubectl-flexmetal-darwin-arm64.tar.gz
      sha256: @SHA256 kubectl-flexmetal-darwin-arm64.tar.gz@
      bin: kubectl-flexmetal
    - selector:
        matchLabels: {os: windows, arch: amd64}
      uri: @DOWNLOADS@/kubectl-flexmetal-windows-amd64.zip
      sha256: @SHA256 kubectl-flexmetal-windows-amd64.zip@
      bin: kubectl-flexmetal.exe
