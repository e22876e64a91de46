#!/usr/bin/env bash
# `make demo`: says what it will do and about how long, compiles the Rust programs and the packages of the control plane
# at the same time, and starts the demo. `lab` then only links the control plane. It builds it if this compilation failed.
#
#   crates/lab/demo.sh LAB COMMAND...   COMMAND builds the Rust programs, of which LAB is one
set -euo pipefail
cd "$(dirname "$0")/../.."
lab="$1"
shift

version="$(sed -n 's|^[[:space:]]*k8s.io/kubernetes v|v|p' crates/lab/control-plane/go.mod)"
minor="${version%.*}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/flexmetal-operator/control-plane"

took() {
  printf '%d min %02d s' $((SECONDS / 60)) $((SECONDS % 60))
}

# Whether the folder has programs that fit the rest of the control plane. `lab` checks it again, and says why not.
fits() {
  [[ -x "$1/etcd" && -x "$1/kube-apiserver" && "$("$1/kube-apiserver" --version)" == "Kubernetes $minor."* ]]
}

is_built() {
  compgen -G "$cache/$1-*/kubectl" >/dev/null
}

part=(k8s.io/kubernetes/cmd/kube-controller-manager/app)
all=("${part[@]}" k8s.io/kubernetes/cmd/kube-apiserver/app k8s.io/kubectl/pkg/cmd go.etcd.io/etcd/server/v3/etcdmain)
packages=() assets="${KUBEBUILDER_ASSETS:-}" tool=""
if [[ -n "$assets" && -x "$assets/kube-controller-manager" ]]; then
  plane="the control plane is that of KUBEBUILDER_ASSETS"
elif [[ -n "$assets" ]] && fits "$assets"; then
  plane="etcd and kube-apiserver are those of KUBEBUILDER_ASSETS"
  is_built "$version" || is_built "assets-$version" || packages=("${part[@]}")
else
  [[ -z "$assets" ]] || echo "KUBEBUILDER_ASSETS is not used: it needs etcd, and kube-apiserver $minor."
  if is_built "$version"; then
    plane="the control plane is built already"
  elif tool="$(command -v setup-envtest)"; then
    plane="etcd and kube-apiserver are those of setup-envtest"
    is_built "assets-$version" || packages=("${part[@]}")
  else
    plane="etcd and Kubernetes $version are built" packages=("${all[@]}")
  fi
fi
((${#packages[@]} != 1)) || plane+=", and kube-controller-manager $version is built"

programs="the Rust programs are built" minutes=5
[[ ! -x "$lab" ]] || programs="the Rust programs are there, and what changed is built" minutes=0
case "${#packages[@]}" in
  0) ;;
  1) minutes=$((minutes + 3)) ;;
  *) minutes=$((minutes + 4)) ;;
esac
about="half a minute"
((minutes == 0)) || about="$minutes to $((minutes * 5 / 3)) minutes on two cores (later runs: half a minute)"
printf '%s\n' "make demo takes $about:" "  - $programs" "  - $plane" \
  "  - a cluster, a simulator, the operator and three servers start"

if [[ -n "$tool" ]]; then
  if assets="$("$tool" use --print path "${minor#v}.x")" && fits "$assets"; then
    export KUBEBUILDER_ASSETS="$assets"
    echo "setup-envtest has them in $assets ($(took))."
  else
    packages=("${all[@]}")
    echo "setup-envtest has none of $minor: all programs of Kubernetes $version are built, which takes a minute more."
  fi
fi

if ((${#packages[@]} > 0)); then
  command -v go >/dev/null ||
    { echo "make demo: Go 1.26 or later builds the control plane and was not found: install it (https://go.dev/dl)" >&2; exit 1; }
  # A process group of its own, so that all of it ends with this script.
  set -m
  (
    cd crates/lab/control-plane
    # The flags and the environment of crates/lab/src/programs.rs.
    flags="all=-dwarf=false"
    ((${#packages[@]} > 1)) || flags+=" -l"
    if CGO_ENABLED=0 GOWORK=off GOGC=400 go build -mod=readonly -trimpath "-gcflags=$flags" "${packages[@]}" 2>/dev/null; then
      echo "Control plane compiled in $(took)."
    fi
  ) </dev/null &
  compilation=$!
  set +m
  trap 'kill -- "-$compilation" 2>/dev/null || true' EXIT
fi
"$@"
echo "Rust programs built in $(took)."
[[ -z "${compilation:-}" ]] || wait "$compilation"
trap - EXIT
exec "$lab" demo up
