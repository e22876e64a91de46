#!/usr/bin/env bash
# Checks each shape of the chart in ci/ against the schemas of Kubernetes and the policies of checkov. The exceptions
# of checkov are in deploy/chart/.checkov.yaml.
#
#   tests/tools/chart_policies.sh HELM FOLDER-OF-PYTHON-PACKAGES
set -euo pipefail
cd "$(dirname "$0")/../.."

helm="$1" packages="$2"
export PYTHONPATH="$packages" PYTHONWARNINGS=ignore
rendered="$(mktemp -d)"
trap 'rm -rf "$rendered"' EXIT

for values in deploy/chart/ci/*-values.yaml; do
  file="$rendered/$(basename "$values" -values.yaml).yaml"
  "$helm" template flexmetal-operator deploy/chart --namespace flexmetal-system --values "$values" >"$file"
  for version in 1.32 1.37; do
    # --quiet still prints errors. The schemas have no custom resources.
    python3 "$packages/bin/kubernetes-validate" --quiet --kubernetes-version "$version" "$file"
  done
done
(cd deploy/chart && python3 "$packages/bin/checkov" --config-file .checkov.yaml --directory "$rendered")
