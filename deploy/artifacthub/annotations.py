#!/usr/bin/env python3
"""Prints the annotations for Artifact Hub that Chart.yaml has only in a release: its images and its changes.

usage: annotations.py VERSION REGISTRY HOMEPAGE <CHANGELOG.md
"""

import json
import re
import sys

PROGRAMS = ["flexmetal-operator", "flexmetal-simulator", "kubectl-flexmetal"]
PLATFORMS = ["linux/amd64", "linux/arm64"]
LINK = r"\[([^]]*)\]\(([^)]*)\)"
# Artifact Hub rejects a chart with other kinds of changes.
KINDS = ["added", "changed", "deprecated", "removed", "fixed", "security"]


def list_changes(changelog, version, homepage):
    section = re.search(rf"^## \[{re.escape(version)}\](.*?)(?=^## |\Z)", changelog, re.M | re.S)
    for kind, entries in re.findall(r"^### (.*?)[ \t]*\n(.*?)(?=^### |\Z)", section[1] if section else "", re.M | re.S):
        if kind.lower() not in KINDS:
            sys.exit(f"annotations.py: {kind} is none of {', '.join(KINDS)}")
        for entry in re.findall(r"^- (.*?)(?=^- |^$|\Z)", entries, re.M | re.S):
            text = " ".join(entry.split())
            # A link after a colon at the end is no part of the sentence.
            change = {"kind": kind.lower(), "description": re.sub(LINK, r"\1", re.sub(f": {LINK}[.]$", ".", text))}
            if links := re.findall(LINK, text):
                root = f"{homepage}/blob/v{version}/"
                change["links"] = [{"name": n, "url": u if "://" in u else root + u} for n, u in links]
            yield change


def main(version, registry, homepage):
    changes = list(list_changes(sys.stdin.read(), version, homepage))
    if not changes:
        sys.exit(f"annotations.py: the changelog has no changes of {version}")
    images = [{"name": it, "image": f"{registry}/{it}:{version}", "platforms": PLATFORMS} for it in PROGRAMS]
    # Artifact Hub parses the values as YAML, and unescaped JSON is valid YAML.
    values = {"images": images, "changes": changes}.items()
    annotations = {f"artifacthub.io/{name}": json.dumps(it, indent=2, ensure_ascii=False) for name, it in values}
    print(json.dumps(annotations, ensure_ascii=False))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
