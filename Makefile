# Two commands to know: `make run` starts the server, `make test` runs the tests. Both set everything up first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DATA   ?= data

.PHONY: run test coverage lint types layers check soak bench clean

run: $(VENV)/.run            ## start Headwater on a SQLite file in ./data
	$(BIN)/headwater serve --data "$(DATA)"

# Three processes, also on two cores: many tests wait for leases and servers, and two leave a quarter of the time idle.
test: $(VENV)/.dev           ## the whole test-suite
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "not soak"

coverage: $(VENV)/.dev       ## the test-suite with a figure of coverage; slower
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "not soak" --cov --cov-report=term:skip-covered

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

check: lint types layers test ## what CI runs

# `make test` draws the same examples in every run. A soak explores with a new seed; `make soak SEED=…` repeats one.
soak: SEED := $(or $(SEED),$(shell date +%s))
soak: $(VENV)/.dev           ## kill loops, sweeps, fuzzing, property tests with new examples: long
	$(BIN)/python -m pytest -m "soak or hypothesis" --timeout 0 --hypothesis-profile explore --hypothesis-seed $(SEED)

bench: $(VENV)/.bench        ## benchmarks, each a ratio against a named peer or limit
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.pip:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Headwater needs Python 3.11 or newer.")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=26"
	touch $@

$(VENV)/.run: $(VENV)/.pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[dev,bench]"
	touch $@
