#!/usr/bin/env bash
# Prints the krew manifest of a release.
#
#   deploy/krew/render.sh VERSION HOMEPAGE DOWNLOADS SHA256SUMS
#
# DOWNLOADS is the URL of the folder of the archives, SHA256SUMS the release's file of that name.
set -euo pipefail

[[ $# == 4 ]] || { echo "usage: deploy/krew/render.sh VERSION HOMEPAGE DOWNLOADS SHA256SUMS" >&2; exit 2; }
manifest="$(sed -e "s|@VERSION@|$1|" -e "s|@HOMEPAGE@|$2|" -e "s|@DOWNLOADS@|$3|" "$(dirname "$0")/flexmetal.yaml.tpl")"
while read -r sum file; do
  manifest="${manifest//@SHA256 $file@/$sum}"
done <"$4"
if missing="$(grep -o '@[A-Z].*@' <<<"$manifest")"; then
  echo "deploy/krew/render.sh: no value for $missing in $4" >&2
  exit 1
fi
echo "$manifest"
