#!/usr/bin/env bash
# Checks deploy/krew/render.sh: every archive of the release workflow has its checksum, and a missing one is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "tests/tools/krew.sh: $1" >&2
  exit 1
}

sums="$(mktemp)"
trap 'rm -f "$sums"' EXIT
mapfile -t platforms < <(sed -n 's/.*{platform: \([a-z0-9-]*\),.*/\1/p' .github/workflows/release.yaml)
((${#platforms[@]} == 5)) || fail "the workflow has ${#platforms[@]} platforms"
for index in "${!platforms[@]}"; do
  [[ "${platforms[index]}" == windows-* ]] && extension=zip || extension=tar.gz
  printf '%064d  kubectl-flexmetal-%s.%s\n' "$((index + 1))" "${platforms[index]}" "$extension"
done >"$sums"

manifest="$(deploy/krew/render.sh 1.2.3 https://git.example.com/it https://git.example.com/it/v1.2.3 "$sums")"
for index in "${!platforms[@]}"; do
  grep --quiet "sha256: $(printf '%064d' "$((index + 1))")\$" <<<"$manifest" || fail "no checksum of ${platforms[index]}"
done
if grep --quiet @ <<<"$manifest"; then fail "a value is missing: $manifest"; fi
sed -i 1d "$sums"
if deploy/krew/render.sh 1.2.3 a b "$sums" 2>/dev/null; then fail "a missing checksum is no error"; fi
