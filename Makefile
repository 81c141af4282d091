# Trainyard: `make help` lists the targets. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-bench
# Compiled files are kept whatever the environment says: each process that is started would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo chat up intents test test-faults test-builds mutation soak check lint types format bench test-gpu test-peers gallery pictures clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make the virtual environment from the lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 14) else "Trainyard needs Python 3.11 to 3.14, and $(PYTHON) is %d.%d; set PYTHON=python3.11" % v)'
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "$(PYTHON) has no venv module (Debian: apt install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing from requirements.lock (a few minutes the first time) …"
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0 -c requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## play the main job on real data, no account needed; TASK=forecasting for another task type
	$(BIN)/trainyard demo $(if $(TASK),--task $(TASK))

chat: $(READY)  ## talk to the bot in this terminal
	$(BIN)/trainyard chat

up: $(READY)  ## serve Slack and Discord with the tokens in .env
	$(BIN)/trainyard up

format: $(READY)  ## format the code
	$(BIN)/ruff format agent bot worker charts_render trainyard tests examples
	$(BIN)/ruff check --fix agent bot worker charts_render trainyard tests examples

# Six processes share two processors, as most tests wait: a second thread in one would only wait for another.
test: export OMP_NUM_THREADS := 1
test: $(READY)  ## run the tests, or those of TESTS="tests/bot …"
	$(BIN)/pytest -n 6 --dist loadfile --no-loadscope-reorder $(TESTS)

test-builds: $(READY)  ## each task type on real data, from a sentence to a score at its reference, or those of BUILDS="cluster …"
	$(BIN)/pytest -m builds tests/builds tests/system $(if $(BUILDS),-k "$(BUILDS)") -s

lint: $(READY)  ## format, lint and import rules
	$(BIN)/ruff format --check agent bot worker charts_render trainyard tests examples
	$(BIN)/ruff check agent bot worker charts_render trainyard tests examples
	$(BIN)/lint-imports

types: $(READY)  ## types
	$(BIN)/mypy

check: $(READY)  ## format, lint, import rules, types, tests: what CI runs
	$(MAKE) -j 2 --output-sync lint types
	$(MAKE) test

$(PEERS)/.ready: tests/bench/peers.lock
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --no-deps -r tests/bench/peers.lock
	@touch $@

intents: $(READY)  ## fit the classifier of the planner without a model to its table
	$(BIN)/python -m agent.llm.fit_intents

bench: $(READY) $(PEERS)/.ready  ## measure against peers, print a table, write bench.json
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[bench]'
	$(BIN)/python -m tests.bench

test-peers: $(READY)  ## tests against programs of others that need node
	cd tests/peers && npm ci --silent --ignore-scripts
	$(BIN)/pytest -m peers tests/peers

test-gpu: $(READY)  ## what only a host with a CUDA device shows
	$(BIN)/pytest -m gpu tests/gpu -s

test-faults: $(READY)  ## every fault of the matrix, every variant, many examples (tens of minutes)
	$(BIN)/pytest -n 2 --dist loadfile tests/faults -m "faults or not faults"
	$(BIN)/pytest -n 2 --dist loadfile tests --ignore=tests/faults -m "faults or hypothesis" --hypothesis-profile thorough

mutation: $(READY)  ## take one safeguard away at a time; a named test must go red for each
	$(BIN)/python -m tests.faults.mutation

soak: $(READY)  ## random faults for MINUTES=n minutes (SEED=n), invariants checked after each
	$(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),10) --seed $(or $(SEED),7)

gallery: $(READY)  ## make the gallery of charts and pictures anew (docs/gallery.md)
	$(BIN)/python -m charts_render.gallery docs

pictures: $(READY)  ## make the pictures of the README anew
	$(BIN)/trainyard demo --record docs < /dev/null

clean:  ## remove the virtual environment and the demo's files
	rm -rf $(VENV) $(PEERS) .trainyard
