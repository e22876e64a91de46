#!/usr/bin/env bash
# Builds one program twice from nothing, with the flags of deploy/Dockerfile and in two folders, puts each into an image,
# and fails if the digests of the images differ. Tests the image's program, too. Needs no container engine, but root.
#
#   deploy/containers/reproduce.sh [PROGRAM]
#
# The simulator is the default, because it compiles in the least time.
set -euo pipefail
cd "$(dirname "$0")/../.."

program="${1:-flexmetal-simulator}"
umoci="$(tests/tools/install.sh umoci)"
version="$(sed -n 's/^appVersion: //p' deploy/chart/Chart.yaml)"
revision="$(git rev-parse HEAD)"
commit_time="$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)"
host="$(rustc --print host-tuple)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# build FOLDER: the program's file layer in FOLDER/files.
build() {
  FLEXMETAL_VERSION="$version ($revision)" FLEXMETAL_REVISION="$revision" CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$1/target" \
    RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$1/target=/source/target" \
    cargo build --locked --release --quiet --target "$host" --package "$program" --bins
  install -D --mode=0755 "$1/target/$host/release/$program" "$1/files/$program"
  install -D --mode=0644 /etc/ssl/certs/ca-certificates.crt "$1/files/etc/ssl/certs/ca-certificates.crt"
  rm -rf "$1/target"
  find "$1/files" -exec touch --date "$commit_time" {} +
}

# assemble FOLDER: prints the digest of an image with the files of FOLDER/files.
assemble() {
  local image="$1/image:latest"
  "$umoci" init --layout "$1/image"
  "$umoci" new --image "$image"
  "$umoci" insert --no-history --image "$image" "$1/files" /
  "$umoci" config --no-history --image "$image" --created "$commit_time" --config.user 65532:65532 \
    --config.entrypoint "/$program"
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["manifests"][0]["digest"])' "$1/image/index.json"
}

digests=()
for folder in "$work/first" "$work/second-build"; do
  mkdir "$folder"
  build "$folder"
  digests+=("$(assemble "$folder")")
  echo "$program: ${digests[-1]}"
done
[[ "${digests[0]}" == "${digests[1]}" ]] || { echo "$program is not reproducible: the digests differ" >&2; exit 1; }
python3 deploy/containers/smoke.py "$program" "$version" "$revision" "$work/first/files"
