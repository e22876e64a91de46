#!/usr/bin/env bash
# Orders a server on the demo, installs another system on it, reboots and releases it.
# Start the demo first (`make demo`). Run this script in a shell in which you ran `. .demo/env`.
set -euo pipefail

: "${SIMULATOR:?this is not the shell of the demo; run: . .demo/env}"
server=life-of-a-server

step() {
  printf '\n== %s\n' "$1"
}

step "order"
kubectl apply -f - <<YAML
apiVersion: flexmetal.dev/v1alpha1
kind: BareMetalServer
metadata:
  name: $server
spec:
  location: "EU: Rotterdam"
  instanceType: bm7.std.8
  os:
    slug: ubuntu-2404-lts
  sshKeys:
    - publicKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHRoaXMgaXMgbm90IGEga2V5IG9mIGFueWJvZHkgISEh nobody
YAML
kubectl wait --for=condition=Ready "bms/$server" --timeout=3m
kubectl get bms "$server"

# By default the simulator takes as long as a real provider: minutes. This shortens it.
curl -s "$SIMULATOR/_simulator/settings" -d '{"installSeconds": 2, "commandSeconds": 1}' > /dev/null

step "re-install: the edit names the system, the higher revision gives consent"
kubectl patch bms "$server" --type=merge \
  -p '{"spec": {"os": {"slug": "debian-13"}, "install": {"revision": 1}}}'
kubectl wait --for=jsonpath='{.status.install.last.result}'=Finished "bms/$server" --timeout=5m
kubectl wait --for=condition=Ready "bms/$server" --timeout=1m
kubectl get bms "$server" -o jsonpath='{.status.os}{"\n"}'

step "reboot"
kubectl apply -f - <<YAML
apiVersion: flexmetal.dev/v1alpha1
kind: ServerCommand
metadata:
  name: $server-reboot
spec:
  targetRef:
    name: $server
  action: Reboot
YAML
kubectl wait --for=condition=Complete "scmd/$server-reboot" --timeout=5m

step "release"
kubectl delete "scmd/$server-reboot"
kubectl delete bms "$server" --timeout=5m
echo "released"
