# Every command of this project. `make` alone lists them.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
LAB := $(TARGET)/debug/lab
# The programs, and their documentation. With the example, features are those of the tests, so that none makes crates of
# the others again.
BUILD := $(CARGO) build --locked --workspace --bins --example cligen
DOC := $(CARGO) doc --locked --workspace --no-deps --lib --bin flexmetal-simulator --example cligen
TOOLS := tests/tools/install.sh
SERVERS ?= 1000
# Which tests run beside the representative ones: docs/contributing/tests.md.
TEST_SLICE ?=
# Integration tests mostly wait. Twelve at once keep two cores busy; the tests must pass with more.
TEST_THREADS ?= 12

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Start a local cluster with the simulator, the operator and three servers
	@crates/lab/demo.sh $(LAB) $(BUILD)

.PHONY: demo-down
demo-down: ## Stop the demo and remove everything it created
	test -x $(LAB) || $(BUILD)
	$(LAB) demo down

# GOGC: kubectl and Helm end within a second, and take a quarter less processor time if they collect no garbage.
.PHONY: test
test: ## Run the tests (TEST_SLICE=0 to 9: and a tenth of the others); the first run builds a control plane: about 5 minutes
	helm_3=$$($(TOOLS) helm-3) && helm_4=$$($(TOOLS) helm-4) && prometheus=$$($(TOOLS) prometheus) && \
	$(CARGO) build --locked --workspace --bins --examples && $(LAB) build && \
	HELM_3=$$helm_3 HELM_4=$$helm_4 PROMETHEUS=$$prometheus PROMTOOL=$$(dirname $$prometheus)/promtool \
	TEST_SLICE=$(TEST_SLICE) RUST_TEST_THREADS=$(TEST_THREADS) GOGC=1600 \
	$(CARGO) test --locked --workspace --config "target.'cfg(all())'.runner = '$(CURDIR)/tests/tools/timed.sh'" \
	$(if $(TEST_SLICE),-- --include-ignored)

.PHONY: test-exhaustive
test-exhaustive: ## Run all tests: every scene, every crash point, every page, both Helms, the browser, an image built twice (85 minutes; needs root)
	$(MAKE) test TEST_SLICE=all
	$(MAKE) page
	$(MAKE) images

.PHONY: mutants
mutants: ## Change the decisions in some 40 places, and see which changes their unit tests miss: about 30 minutes
	mutants=$$($(TOOLS) cargo-mutants) && $$mutants mutants --package flexmetal-core --shard 0/120 --sharding round-robin \
	--timeout 300 --output $(TARGET) -- --lib

.PHONY: page
page: ## Test the simulator's page in Chromium and save target/page.png
	$(BUILD)
	driver=$$($(TOOLS) chromedriver) && $(LAB) page --driver $$driver --out $(TARGET)/page.png

.PHONY: images
images: ## Build the simulator's image twice from nothing and compare the digests, without a container engine (needs root)
	deploy/containers/reproduce.sh flexmetal-simulator

.PHONY: bench
bench: control-plane ## Measure 1,000 servers (SERVERS=10000: so many) from order to release and write benchmarks/
	$(CARGO) build --locked --release --workspace --bins
	$(TARGET)/release/lab bench --servers $(SERVERS)

.PHONY: bench-small
bench-small: control-plane ## Measure 500 tags, 200 stored keys and 200 entries of a whitelist and write benchmarks/
	$(CARGO) build --locked --release --workspace --bins
	$(TARGET)/release/lab bench-small

.PHONY: bench-simulator
bench-simulator: ## Measure the simulator: single requests, load, memory per machine
	rm -rf $(TARGET)/criterion/simulator
	CRITERION_HOME=$(TARGET)/criterion $(CARGO) bench --locked --package flexmetal-simulator --bench simulator
	$(CARGO) build --locked --release --workspace --bins
	$(TARGET)/release/lab load --criterion $(TARGET)/criterion/simulator

.PHONY: lint
lint: ## Check formatting, lints, documentation, licences, dependencies and other forms of installation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(DOC)
	deny=$$($(TOOLS) cargo-deny) && $$deny --locked check licenses bans sources
	$(MAKE) lint-deploy

.PHONY: lint-deploy
lint-deploy: ## Check that deploy/kustomize and deploy/argocd are generated and work; part of `make lint`
	helm_4=$$($(TOOLS) helm-4) && kustomize=$$($(TOOLS) kustomize) && lua=$$($(TOOLS) lua) && pyyaml=$$($(TOOLS) pyyaml) && \
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$$(dirname $$pyyaml) python3 tests/tools/kustomize.py $$helm_4 $$kustomize && \
	python3 tests/tools/argocd_health.py $$lua

.PHONY: lint-release
lint-release: ## Check the workflows, the Dockerfile, the scripts, the krew manifest, the annotations for Artifact Hub and the policies of the rendered chart
	zizmor=$$($(TOOLS) linters) && linters=$$(dirname $$zizmor) && actionlint=$$($(TOOLS) actionlint) && \
	$$actionlint -shellcheck $$linters/shellcheck .github/workflows/*.yaml && \
	$$zizmor --quiet --offline .github/workflows && \
	$$linters/hadolint deploy/Dockerfile && \
	$$linters/shellcheck --severity=warning crates/lab/*.sh deploy/*/*.sh tests/tools/*.sh && \
	PYTHONPATH=$$(dirname $$linters) python3 $$linters/check-jsonschema --builtin-schema vendor.renovate renovate.json && \
	tests/tools/krew.sh && \
	version=$$(sed -n '0,/^- /{s/^## \[\([^]]*\)\].*/\1/p}' CHANGELOG.md | tail -n 1) && \
	deploy/artifacthub/annotations.py $$version registry.example.com https://example.com/a <CHANGELOG.md >/dev/null
	helm_4=$$($(TOOLS) helm-4) && checkov=$$($(TOOLS) chart-linters) && \
	tests/tools/chart_policies.sh $$helm_4 $$(dirname $$(dirname $$checkov))

.PHONY: generate
generate: ## Generate the CRDs in crds/ and in the chart, the pages in docs/reference/, deploy/kustomize and deploy/argocd
	$(CARGO) run --locked --quiet --example crdgen -- docs/reference crds deploy/chart/files/crds
	$(CARGO) run --locked --quiet --package kubectl-flexmetal --example cligen -- docs/reference/cli.md docs/reference/json.md \
		tests/integration/end_to_end/plugin/tables.txt
	$(CARGO) run --locked --quiet --example valuesgen -- deploy/chart/README.md deploy/chart/values.yaml
	helm_4=$$($(TOOLS) helm-4) && rendered=$$(mktemp -d) && render() { \
	$$helm_4 template flexmetal-operator deploy/chart --namespace flexmetal-system --set image.repository=example.com/a "$$@"; } && \
	render > $$rendered/all && render --set 'watchNamespaces={team-a}' > $$rendered/some && \
	$(CARGO) run --locked --quiet --example rightsgen -- docs/reference/rights.md $$rendered/all $$rendered/some && rm -r $$rendered
	helm_4=$$($(TOOLS) helm-4) && pyyaml=$$($(TOOLS) pyyaml) && \
	PYTHONPATH=$$(dirname $$pyyaml) python3 deploy/kustomize/generate.py $$helm_4 deploy

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl, unless they exist
	$(BUILD)
	$(LAB) build

.PHONY: advisories
advisories: ## Check the dependencies against the advisory database (needs a network)
	deny=$$($(TOOLS) cargo-deny) && $$deny --locked check advisories
