#!/usr/bin/env bash
# Runs a test program that says how many seconds each of its tests took. `make test` gives it to cargo as the runner.
# libtest has the flag for nightly toolchains; the variable lifts that for this program, and for no compiler.
RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time
