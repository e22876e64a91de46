#!/usr/bin/env python3
"""Checks deploy/kustomize and deploy/argocd: they are generated, they build, and references follow their objects.

usage: kustomize.py HELM KUSTOMIZE
"""

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/kustomize"))
import generate  # noqa: E402

# Each way to refer to something, in one kustomization with a namespace, a prefix and generated names. What must not be
# renamed begins with `other`.
OBJECTS = """\
apiVersion: flexmetal.dev/v1alpha1
kind: ProviderAccount
metadata: {name: account}
spec: {apiKeySecretRef: {name: key}, caBundleRef: {kind: ConfigMap, name: bundle, key: ca.crt}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: ClusterProviderAccount
metadata: {name: shared}
spec: {apiKeySecretRef: {name: key}, caBundleRef: {kind: Secret, name: key, key: ca.crt}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: SshKey
metadata: {name: operators}
spec: {accountRef: {kind: ClusterProviderAccount, name: shared}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: BareMetalServer
metadata: {name: web}
spec:
  accountRef: {name: account}
  sshKeys:
    - sshKeyRef: {name: operators}
    - secretKeyRef: {name: key, key: ssh}
    - configMapKeyRef: {name: bundle, key: ssh}
  postInstallScript: {valueFrom: {configMapKeyRef: {name: bundle, key: script}}}
  userData: {data: {valueFrom: {secretKeyRef: {name: key, key: data}}}}
  os: {kernelParams: [{valueFrom: {secretKeyRef: {name: key, key: one}}}, {value: other}]}
  outputs: {secretRef: {name: other-secret}, configMapRef: {name: other-outputs}}
  rootPassword: {secretRef: {name: other-password}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: DedicatedHost
metadata: {name: host}
spec: {accountRef: {name: other-account}, sshKeyRef: {name: operators}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: ServerCommand
metadata: {name: reboot}
spec: {targetRef: {kind: DedicatedHost, name: host}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: ServerTag
metadata: {name: tag}
spec: {accountRef: {name: account}}
---
apiVersion: flexmetal.dev/v1alpha1
kind: IpWhitelist
metadata: {name: list}
spec: {accountRef: {name: account}, entries: [{name: other-entry}]}
"""


def fail(message):
    sys.exit(f"tests/tools/kustomize.py: {message}")


def build(kustomize, kustomization, files=()):
    """The objects of a kustomization in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        for part in ("resources", "components"):
            paths = kustomization.get(part, [])
            kustomization[part] = [p if p in dict(files) else os.path.relpath(ROOT / p, folder) for p in paths]
        for name, text in files:
            (folder / name).write_text(text)
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        built = subprocess.run([kustomize, "build", folder], capture_output=True, text=True)
        if built.returncode:
            fail(f"{kustomization}: {built.stderr}")
        return list(yaml.load_all(built.stdout, Loader=yaml.CSafeLoader))


def check_is_generated(helm):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        generate.main(helm, folder)
        kustomize = ROOT / "deploy/kustomize"
        checked = {f.relative_to(ROOT / "deploy") for f in kustomize.rglob("*.yaml")} | {Path("argocd/argocd-cm.yaml")}
        written = {f.relative_to(folder) for f in folder.rglob("*.yaml")}
        stale = checked ^ written
        stale |= {f for f in checked & written if (folder / f).read_text() != (ROOT / "deploy" / f).read_text()}
        if stale:
            fail(f"{', '.join(sorted(map(str, stale)))} in deploy/ is stale: run `make generate`")


def check_components(helm, kustomize):
    """Each component builds what the chart renders with its values, and all of them together build."""
    names = sorted(generate.COMPONENTS)
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):
            overlay = {"resources": ["deploy/kustomize/base"]}
            overlay["components"] = [f"deploy/kustomize/components/{name}" for name in chosen]
            built = {generate.identity(thing): thing for thing in build(kustomize, overlay)}
            built.pop(("v1", "Namespace", None, generate.NAMESPACE))
            values = [value for name in chosen for value in generate.COMPONENTS[name]]
            rendered = generate.render(helm, values)
            if wrong := [key for key in {*built, *rendered} if built.get(key) != rendered.get(key)]:
                fail(f"components {chosen} differ from the chart with {values} in {sorted(map(str, wrong))}")


def check_references(kustomize):
    overlay = {
        "namespace": "team-a",
        "namePrefix": "new-",
        "resources": ["objects.yaml"],
        "configurations": ["namereference.yaml"],
        "configMapGenerator": [{"name": "bundle", "literals": ["a=1"]}],
        "secretGenerator": [{"name": "key", "literals": ["a=1"]}],
    }
    configuration = (ROOT / "deploy/kustomize/namereference.yaml").read_text()
    built = build(kustomize, overlay, [("objects.yaml", OBJECTS), ("namereference.yaml", configuration)])
    names = {thing["metadata"]["name"] for thing in built}
    checked = 0
    for thing in built:
        if thing["kind"] in ("ConfigMap", "Secret"):
            continue
        for path, name in written_references(thing["spec"]):
            checked += 1
            if (name in names) == name.startswith("other"):
                fail(f"{thing['kind']} {path} is {name}, and the objects are {sorted(names)}")
    if checked < 20:
        fail(f"only {checked} references were found")


def written_references(value, path="spec"):
    if isinstance(value, list):
        for item in value:
            yield from written_references(item, path)
    elif isinstance(value, dict):
        for name, below in value.items():
            if name == "name":
                yield f"{path}/name", below
            else:
                yield from written_references(below, f"{path}/{name}")


def main(helm, kustomize):
    check_is_generated(helm)
    check_components(helm, kustomize)
    check_references(kustomize)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: kustomize.py HELM KUSTOMIZE")
    main(*sys.argv[1:])
