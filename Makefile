# Everything a developer or CI runs. Nothing needs preparing: each target sets itself up first.

PYTHON ?= python3
# `make test PYTHON=python3.13` has a virtual environment of its own, .venv-3.13.
VENV := .venv$(if $(filter command,$(origin PYTHON)),-$(shell \
  $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
comma := ,
# -qq: errors only.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# The plugins that tests, demo and benchmarks load through their entry points, as far as they are there.
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard tests/plugin/pyproject.toml examples/*/pyproject.toml \
  benchmarks/plugin/pyproject.toml))
# What holds the versions of packages: but for the oldest ones, those that `make constraints` found.
HELD := --constraint $(if $(LOWEST),$(VENV)/lowest.txt,constraints.txt)
READY := $(VENV)/.ready
SOURCES := $(wildcard inboxd tests examples benchmarks)
# A root user's pip warns that it is one; in a virtual environment of its own that says nothing.
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help setup constraints check docs fmt test test-benchmarks test-brokers test-databases test-gate test-large test-lowest test-long test-plans test-pooler test-screens test-workers test-matrix steady ready chaos demo demo-bets demo-accounts screenshots bench profile dist wheel clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv and install the project into it (PYTHON=python3.12: .venv-3.12)

# Made again when dependencies change; --clear, so that a broken or moved one is mended as well. What builds the dozen of
# packages is installed once, not for each of them.
$(READY): pyproject.toml constraints.txt $(addsuffix /pyproject.toml,$(PLUGINS))
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "inboxd needs Python 3.11 or newer: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) \
	  || { echo "No virtual environment: on Debian or Ubuntu, apt install python3-venv" >&2; exit 1; }
	@$(if $(LOWEST),$(PYTHON) tests/support/lowest.py >$(VENV)/lowest.txt)
	@$(PIP) install $(HELD) 'hatchling>=1.27' editables
	@$(PIP) install $(HELD) --no-build-isolation --editable '.[test$(if $(LOWEST),,$(comma)check)]' \
	  $(foreach plugin,$(PLUGINS),--editable $(plugin))
	@touch $@

# The long tests and the benchmarks run the peers too.
PEERS := $(VENV)/.bench
$(PEERS): $(READY)
	@$(PIP) install $(HELD) --no-build-isolation --editable '.[bench]'
	@touch $@

# With each Python at hand: what a package has for one of them alone has a marker.
constraints: ## move the versions in constraints.txt to the newest ones, for a commit of their own (PYTHONS=)
	@$(PYTHON) tests/support/constraints.py $(addprefix --python=,$(AT_HAND)) \
	  pyproject.toml $(addsuffix /pyproject.toml,$(PLUGINS))

check: $(READY) ## lint, formatting, types, and which room may import which
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy $(SOURCES) .ci/gate
	@$(BIN)/lint-imports --no-logo

docs: $(READY) ## write the pages and the sample settings that repeat the code
	@$(BIN)/python -m tests.support.reference

fmt: $(READY) ## format, and mend what can be mended
	@$(BIN)/ruff check --fix --exit-zero --quiet
	@$(BIN)/ruff format

# POSTGRES: the folder of another one's programs, as in Debian's package: /usr/lib/postgresql/15/bin
test test-large test-long test-plans test-pooler test-workers: export INBOXD_TEST_POSTGRES ?= $(POSTGRES)

# Many interpreters start here: where the environment says so, each would compile everything again.
steady test test-benchmarks test-brokers test-databases test-gate test-long test-plans test-pooler test-screens test-workers: export PYTHONDONTWRITEBYTECODE :=

# Tests mostly wait: three processes keep two cores busy, each with a server of its own; the long ones work.
# OPTIONS: more of pytest's. JOBS=0: one after the other, as on a server that is given, whose roles and
# locks all would share.
JOBS ?= $(if $(INBOXD_TEST_DSN),0,$(if $(filter test-long test-benchmarks,$@),2,3))
SIDE_BY_SIDE = --numprocesses $(JOBS) --dist loadgroup --no-loadscope-reorder $(OPTIONS)

# What this run was told is not for a make that a test runs.
unexport COUNT JOBS LOAD LONG OPTIONS TESTS

# Tests that need a broker's server, Debian's PostgreSQL or a browser, those of plans and of benchmarks,
# those of the gate, and those of whole workers are targets of their own.
BENCHMARKS := tests/benchmarks
PLANNED := tests/plans
BROKERS := tests/brokers tests/messages tests/relays tests/examples/test_inventory_rabbitmq.py tests/examples/test_orders_sources.py
DATABASES := tests/databases
GATE := tests/gate
SCREENS := tests/browser tests/screens
WORKERS := tests/chaos tests/daemon tests/faults tests/machine tests/receiver

# TESTS: folders, files or tests, quoted for the shell where they need it; nothing means all.
test: $(READY) ## every test but those of the targets below (PYTHON=python3.13 POSTGRES=/usr/lib/postgresql/15/bin TESTS= JOBS=3)
	@$(BIN)/pytest -m '$(QUICK)' $(SIDE_BY_SIDE) $(if $(LOWEST),$(OLD)) $(or $(TESTS),$(patsubst %,--ignore=%,$(BENCHMARKS) $(BROKERS) $(DATABASES) $(GATE) $(PLANNED) $(SCREENS) $(WORKERS)))

test-brokers: $(READY) ## the tests that need RabbitMQ, NATS or Kafka's mock (QUICK='not soak': long ones, too)
	@$(BIN)/pytest -m '$(QUICK)' $(SIDE_BY_SIDE) $(or $(TESTS),$(BROKERS))

test-benchmarks: $(PEERS) ## the benchmarks, and the peers beside them, with few rows
	@$(BIN)/pytest -m 'not soak' $(SIDE_BY_SIDE) $(or $(TESTS),$(BENCHMARKS))

test-databases: $(READY) ## the tests on databases as they are: restored, published, renamed, guarded, shared
	@$(BIN)/pytest -m '$(QUICK)' $(SIDE_BY_SIDE) $(or $(TESTS),$(DATABASES))

test-gate: $(READY) ## the tests of the gate itself
	@$(BIN)/pytest -m '$(QUICK)' $(SIDE_BY_SIDE) $(or $(TESTS),$(GATE))

test-screens: $(READY) ## the tests of the screens' pages, also in a browser
	@$(BIN)/pytest -m '$(QUICK)' $(SIDE_BY_SIDE) $(or $(TESTS),$(SCREENS))

test-workers: $(READY) ## the tests of whole workers: processes, signals, faults, chaos
	@$(BIN)/pytest -m '$(QUICK)' $(SIDE_BY_SIDE) $(or $(TESTS),$(WORKERS))

QUICK := not long

# Old versions warn of newer ones of what they need themselves, and structlog's of a traceback that is a text
# where logs are not configured.
OLD := -W ignore::DeprecationWarning -W ignore:Remove:UserWarning
# What stands close to the dependencies: all modules, the driver, the command line, whole daemons.
CLOSE := tests/unit tests/store/test_statements.py tests/main/test_app.py tests/cli/test_output.py \
  tests/daemon/test_process.py tests/daemon/test_executors.py

test-lowest: ## a quick part of the tests, with the oldest dependencies that pyproject.toml allows (TESTS=)
	@$(MAKE) --no-print-directory test VENV=.venv-lowest LOWEST=yes $(if $(TESTS),,TESTS='$(CLOSE)')

# CI leaves out what is a shorter test again, with more seeds, rounds or rows: LONG='long and not soak'
LONG ?= long

test-long: $(PEERS) ## the long tests, within an hour on two cores (LONG='long and not soak')
	@$(BIN)/pytest -m '$(LONG)' $(SIDE_BY_SIDE) $(TESTS)

PLANS ?= not long

test-plans: $(READY) ## the plans of all statements in all states of statistics (POSTGRES=/usr/lib/postgresql/15/bin)
	@$(BIN)/pytest -m '$(PLANS)' $(SIDE_BY_SIDE) $(or $(TESTS),$(PLANNED))

# Ten million rows in sixty days; forty million with DAYROWS=666667.
test-large: $(READY) ## lists, pages, totals and statements on ten million rows in sixty days, by hand (DAYROWS=166667)
	@INBOXD_TEST_ROWS_A_DAY=$(or $(DAYROWS),166667) $(BIN)/pytest -m '' --numprocesses 0 $(OPTIONS) $(or $(TESTS),tests/plans/test_numbers_size.py \
	  tests/plans/test_finding_size.py tests/plans/test_pages_size.py)

test-pooler: $(READY) ## the tests of whole workers and of producers, through PgBouncer
	@INBOXD_TEST_POOLER=1 $(BIN)/pytest -m 'not long' $(SIDE_BY_SIDE) tests/cli tests/daemon tests/faults tests/features tests/main tests/producers

# Each Python at hand with the embedded PostgreSQL, the oldest one with every other that is installed.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
POSTGRESES ?= $(sort $(wildcard /usr/lib/postgresql/*/bin))
AT_HAND = $(foreach python,$(PYTHONS),$(if $(shell $(python) -c 'print(1)' 2>/dev/null),$(python)))

test-matrix: ## the tests with every Python and PostgreSQL at hand, and through PgBouncer
	@set -e; say() { echo "== $$*"; $(MAKE) --no-print-directory "$$@"; }; \
	  for python in $(AT_HAND); do say test PYTHON=$$python; say test-workers PYTHON=$$python; done; \
	  for bin in $(POSTGRESES); do for part in test test-workers; do \
	    say $$part PYTHON=$(firstword $(AT_HAND)) POSTGRES=$$bin; done; done; \
	  say test-pooler

# slow: a third of the processor; stall: all processes stop for up to four seconds, now and then; hog: a busy
# loop on each core. One pytest, without xdist: OPTIONS='--numprocesses 3 --dist loadgroup' has it.
COUNT ?= 10
LOAD ?= slow

steady: $(READY) ## repeat tests under load: each new or mended one, before it lands (TESTS= COUNT=10 LOAD=slow|stall|hog)
	$(if $(TESTS),,$(error Which tests? make steady TESTS=tests/daemon/test_order.py COUNT=10 LOAD=stall))
	@cd .ci && exec $(abspath $(BIN))/python -m gate.steady $(COUNT) $(LOAD) $(abspath $(BIN))/pytest $(OPTIONS) $(TESTS)

ready: ## what CI will say: the whole gate, on the newest commit in a fresh clone
	@bash .ci/ready

chaos: $(READY) ## workers, producers and faults side by side; then all is counted (MINUTES=5 SEED=7)
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

demo: $(READY) ## a school sends e-mails: real input, real processes, its own PostgreSQL
	@$(BIN)/python examples/school/demo.py

demo-bets: $(READY) ## results come in while PostgreSQL is away: every bet comes out right, each once
	@$(BIN)/python examples/bets/match_day.py

demo-accounts: $(READY) ## users register while the accounts service is down: each is provisioned once
	@$(BIN)/python examples/accounts/outage.py

screenshots: $(READY) ## the pictures in docs/images, of a real browser (Debian's chromium); SCREENSHOTS=all: every page, in build/screenshots
	@mkdir -p docs/images build/screenshots
ifeq ($(SCREENSHOTS),all)
	@INBOXD_TEST_SCREENSHOTS=build/screenshots $(BIN)/pytest -q tests/browser/test_screenshots.py -k every_page
else
	@INBOXD_TEST_SCREENSHOTS=docs/images $(BIN)/pytest -q -k "not every_page" tests/browser/test_screenshots.py tests/browser/test_operator.py
endif

# One after the other, never side by side. ONLY=drain,inserts ROWS=20000 REPEAT=3 LINES="no-op events"
# growth fills the disk first, with 20 million rows: only when it is asked for.
SUBJECTS := $(filter-out growth profiles,$(basename $(notdir $(wildcard benchmarks/*.py))))

bench: $(PEERS) ## how fast it is, beside limits and peers (ONLY=drain,emit ROWS= REPEAT= LINES=)
	@set -e; for subject in $(or $(subst $(comma), ,$(ONLY)),$(SUBJECTS)); do \
	  $(BIN)/python benchmarks/$$subject.py --rows $(or $(ROWS),100000) --repeat $(or $(REPEAT),5) \
	    --lines '$(LINES)'; done

profile: $(PEERS) ## where the time of the drains goes: py-spy, pg_stat_statements (ROWS= LINES=)
	@$(BIN)/python benchmarks/profiles.py --rows $(or $(ROWS),100000) --repeat 1 --lines '$(LINES)'

# Who only wants to try it waits for what builds a wheel, and not for what tests one.
BUILDER := .venv-dist/.ready
$(BUILDER): constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "inboxd needs Python 3.11 or newer: make $(or $(MAKECMDGOALS),dist) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(@D) \
	  || { echo "No virtual environment: on Debian or Ubuntu, apt install python3-venv" >&2; exit 1; }
	@$(@D)/bin/python -m pip -qq --disable-pip-version-check install --constraint constraints.txt 'hatchling>=1.27'
	@touch $@

dist: $(BUILDER) ## build the wheel and the sdist into dist/, without the tools of tests
	@$(<D)/bin/python -m hatchling build -t sdist -t wheel -d dist

wheel: $(BUILDER) ## build the wheel alone
	@$(<D)/bin/python -m hatchling build -t wheel -d dist

clean: ## remove what the other targets made
	@rm -rf .venv .venv-* dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
