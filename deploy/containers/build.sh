#!/usr/bin/env bash
# Builds the three images of deploy/Dockerfile for this computer's platform, and tests each.
#
#   deploy/containers/build.sh FOLDER
#
# REVISION and SOURCE are those of this checkout unless they are set. FOLDER gets an OCI archive for each image. With REGISTRY=registry.example.com/team the images are pushed, too, without
# a tag, and FOLDER gets the digest of each. Needs Docker with buildx, and sudo for the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="${1:?usage: deploy/containers/build.sh FOLDER}"
version="$(sed -n 's/^appVersion: //p' deploy/chart/Chart.yaml)"
REVISION="${REVISION:-$(git rev-parse HEAD)}"
SOURCE="${SOURCE:-$(git remote get-url origin)}"
mkdir -p "$folder"
# All times in an image are that of the commit, so that who builds it again gets the same digest.
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH

# The default builder cannot write OCI archives.
docker buildx inspect flexmetal >/dev/null 2>&1 || docker buildx create --name flexmetal --driver docker-container

build() {
  docker buildx build --builder flexmetal --file deploy/Dockerfile --provenance=false \
    --build-arg "VERSION=$version" --build-arg "REVISION=$REVISION" --build-arg "SOURCE=$SOURCE" "$@" .
}

for stage_and_program in operator:flexmetal-operator simulator:flexmetal-simulator plugin:kubectl-flexmetal; do
  stage="${stage_and_program%%:*}" program="${stage_and_program#*:}"
  build --target "$stage" --output "type=oci,rewrite-timestamp=true,dest=$folder/$program.tar"
  sudo python3 deploy/containers/smoke.py "$program" "$version" "$REVISION" "$folder/$program.tar"
  if [[ -n "${REGISTRY:-}" ]]; then
    build --target "$stage" --metadata-file "$folder/$program.json" \
      --output "type=image,name=$REGISTRY/$program,rewrite-timestamp=true,push-by-digest=true,name-canonical=true,push=true"
    jq --raw-output '."containerimage.digest"' "$folder/$program.json" >"$folder/$program.digest"
  fi
done
