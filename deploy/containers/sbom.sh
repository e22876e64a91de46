#!/usr/bin/env bash
# Writes what a program is built from: FOLDER/PROGRAM.cdx.json (CycloneDX) and FOLDER/PROGRAM.spdx.json (SPDX). The program
# is all that an image has, next to certificates.
#
#   deploy/containers/sbom.sh PROGRAM FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."

program="${1:?usage: deploy/containers/sbom.sh PROGRAM FOLDER}" folder="${2:?usage: deploy/containers/sbom.sh PROGRAM FOLDER}"
cyclonedx="$(tests/tools/install.sh cargo-cyclonedx)"
syft="$(tests/tools/install.sh syft)"
manifest="$(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' "$program")"
mkdir -p "$folder"
# It writes next to the manifest, and for the operator's next to those of all other crates.
trap 'rm -f "sbom-$$.json" crates/*/"sbom-$$.json"' EXIT
"$cyclonedx" cyclonedx --manifest-path "$manifest" --format json --override-filename "sbom-$$"
mv "$(dirname "$manifest")/sbom-$$.json" "$folder/$program.cdx.json"
"$syft" convert --quiet "$folder/$program.cdx.json" --output "spdx-json=$folder/$program.spdx.json"
