#!/usr/bin/env python3
"""Checks deploy/argocd/health.lua: each case of docs/contributing/status.md, and objects that the page does not have.

usage: argocd_health.py LUA
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/argocd/health.lua"
CASES = ROOT / "docs/contributing/status.md"
OF_KSTATUS = {"Current": "Healthy", "InProgress": "Progressing", "Failed": "Degraded", "Terminating": "Progressing"}
# What Argo CD leaves of Lua's functions.
ALLOWED = "{ipairs=ipairs, pairs=pairs, tostring=tostring, type=type, obj=obj}"


def fail(message):
    sys.exit(f"tests/tools/argocd_health.py: {message}")


def condition(kind, status, reason="Some", message="Words."):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def build_object(conditions, generation=2, observed=2, deleted=False):
    metadata = {"name": "it", "generation": generation}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "status": {"observedGeneration": observed, "conditions": conditions}}


def page_cases():
    """A name, an object and the expected health for each row of the page."""
    for line in CASES.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 9 or cells[-1] not in OF_KSTATUS:
            continue
        kinds = ["Ready", "Reconciling", "Stalled", "Synced", "Suspended", "DeletionBlocked"]
        statuses = dict(zip(kinds, (cell.split(",")[0] for cell in cells[2:8])))
        conditions = [condition(kind, status, cells[1].strip("`")) for kind, status in statuses.items() if status]
        ended = {"Current": "Complete", "Failed": "Failed"}.get(cells[-1])
        if cells[0] == "over" and ended:
            conditions.append(condition(ended, "True", cells[1].strip("`")))
        # Only the generation makes it InProgress.
        is_stale = cells[-1] == "InProgress" and statuses["Ready"] == "True"
        thing = build_object(conditions, observed=1 if is_stale else 2, deleted=cells[-1] == "Terminating")
        is_suspended = statuses["Suspended"] == "True" and cells[-1] != "Terminating"
        yield line, thing, "Suspended" if is_suspended else OF_KSTATUS[cells[-1]]


def other_cases():
    ready, is_stalled = condition("Ready", "True"), condition("Stalled", "True")
    yield "no status", {"metadata": {"name": "it", "generation": 1}}, "Progressing"
    yield "no conditions", {"metadata": {"generation": 1}, "status": {"observedGeneration": 1}}, "Progressing"
    yield "the default of the schema", build_object([], 1, -1), "Progressing"
    yield "an edit that was not read", build_object([ready], 3, 2), "Progressing"
    yield "an edit of a stalled object", build_object([is_stalled], 3, 2), "Progressing"
    yield "unknown", build_object([condition("Ready", "Unknown")]), "Progressing"
    yield "resumed", build_object([ready, condition("Suspended", "False")]), "Healthy"
    yield "deleted while suspended", build_object([condition("Suspended", "True")], deleted=True), "Progressing"
    yield "changed while ready", build_object([ready, condition("Reconciling", "True")]), "Progressing"
    for ended, expected in (("Complete", "Healthy"), ("Failed", "Degraded")):
        conditions = [condition("Suspended", "True"), condition(ended, "True")]
        yield f"{ended} while suspended", build_object(conditions), expected
    yield "no message", build_object([condition("Ready", "True", "Delivered", "")]), "Healthy"


def lua(value):
    """The value as a Lua expression."""
    if isinstance(value, dict):
        return "{" + ",".join(f"[{lua(key)}]={lua(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ",".join(map(lua, value)) + "}"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def main(interpreter):
    cases = [*page_cases(), *other_cases()]
    if len(cases) < 150:
        fail(f"only {len(cases)} cases were found")
    program = ""
    for _, thing, _ in cases:
        program += (
            f"do local obj = {lua(thing)}; local f = assert(loadfile('{SCRIPT}')); setfenv(f, {ALLOWED})\n"
            "local hs = f(); assert(type(hs.message) == 'string'); print(hs.status .. ' ' .. hs.message) end\n"
        )
    ran = subprocess.run([interpreter, "-"], input=program, capture_output=True, text=True)
    if ran.returncode:
        fail(ran.stderr)
    results = ran.stdout.splitlines()
    for (name, _, expected), result in zip(cases, results, strict=True):
        if result.split(" ")[0] != expected:
            fail(f"{name}: {result}, expected {expected}")
    if results[-1] != "Healthy Delivered":
        fail(f"a condition without a message shows {results[-1]!r}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: argocd_health.py LUA")
    main(sys.argv[1])
