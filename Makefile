# What CI runs, as commands for people. Needs Python >= 3.11 and make; `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv
READY := $(VENV)/ready

# Demo run: `make demo RUN_ID=second DEMO="--folds 2"` starts another one.
RUN_ID ?= demo
DEMO ?=
# Arguments for pytest: `make test TESTS="tests/learn -x"`, or on a machine with a GPU `TESTS="-m gpu" WORKERS=0`.
TESTS ?=
# Test processes. Each imports torch (2 s), so more pay only on a machine with more cores.
WORKERS ?= 2
BENCH ?=

.PHONY: help
help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: install
install: $(READY) ## Create .venv from the lock files (every other target does it too).

# Only locked packages with known hashes enter .venv: pip brings uv, uv brings the rest. pyproject.toml is a
# prerequisite because the editable install reads scripts and packages from it.
$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml pipelines/alpha_rl_hera.pth
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (PYTHON=...)")'
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/uv.txt
	$(UV) pip sync --quiet --compile-bytecode --require-hashes requirements/uv.txt requirements/dev.txt
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: demo
demo: $(READY) ## Train and judge the demo preset on the planted market (minutes, no GPU).
	$(BIN)/walkforward run --preset demo --market planted --jobs 2 --run-id $(RUN_ID) $(DEMO)

.PHONY: test
test: $(READY) ## Run the fast suite with coverage: what CI runs.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m "not gpu and not cluster and not slow" \
		--cov=trainer --cov=pipelines --cov-report=term $(TESTS)

# The tool starts a one-node Kubernetes with Argo (README beside it); a cluster that is up already is used.
CLUSTER_TESTS ?=
.PHONY: cluster-test
cluster-test: $(READY) ## Run the plan and its faults on a real Kubernetes with Argo (root; up to half an hour).
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 -m cluster -v --durations=25 tests/cluster $(CLUSTER_TESTS)

.PHONY: cluster-smoke
cluster-smoke: $(READY) ## The part of cluster-test that CI runs: a verdict, a lost pod, the dry runs (minutes).
	$(MAKE) cluster-test CLUSTER_TESTS="-k 'three_folds or read_without_the_claim or (test_faults and (killed or undisturbed)) or dry_run'"

.PHONY: lint
lint: $(READY) ## Check style, types, import directions and the workflow, offline: what CI runs.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/walkforward lint
	$(BIN)/python -m pipelines.chart --check

.PHONY: chart
chart: $(READY) ## Rewrite what code generates of the Helm chart: template, values, schema.
	$(BIN)/python -m pipelines.chart

# Another base or no compiler: `make image IMAGE="--build-arg BASE_IMAGE=... --archive image.tar"`.
IMAGE ?=
.PHONY: image
image: ## Build the image of this commit with buildah.
	images/build $(IMAGE)

.PHONY: format
format: $(READY) ## Rewrite the code in the project's style.
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(READY) ## Measure steps per second of the learning step; BENCH="--device cuda".
	$(BIN)/python -m benchmarks.step $(BENCH)

# Newest versions that pyproject.toml allows, for every platform from Python 3.11 on. No index address is written.
LOCK = $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade
.PHONY: lock
lock: $(READY) ## Rewrite requirements/*.txt from pyproject.toml and requirements/uv.in.
	$(LOCK) requirements/uv.in --output-file requirements/uv.txt
	$(LOCK) pyproject.toml --output-file requirements/runtime.txt
	$(LOCK) pyproject.toml --extra dev --constraint requirements/runtime.txt --output-file requirements/dev.txt

.PHONY: clean
clean: ## Remove the environment, caches and build products; runs stay.
	rm -rf $(VENV) build dist *.egg-info .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
