# Two commands to know: `make run` starts the server, `make test` runs the tests. Both set everything up first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DATA   ?= data

# Tests and servers start many processes; each would compile the whole program anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test coverage lint types layers check soak bench lock sbom clean

run: $(VENV)/.run            ## start Headwater on a SQLite file in ./data
	$(BIN)/headwater serve --data "$(DATA)"

# Six processes on two cores: for more than half of their time tests wait for leases, servers and time-outs.
WORKERS ?= 6

test: $(VENV)/.dev           ## the whole test-suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not soak"

coverage: $(VENV)/.dev       ## the test-suite with a figure of coverage; slower
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not soak" --cov --cov-report=term:skip-covered

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

# The locks pin every distribution with its hashes, for all supported Pythons. hatchling builds Headwater itself.
lock: $(VENV)/.pip           ## renew deploy/locks: the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet "uv>=0.9"
	printf 'hatchling\n' | $(UV_COMPILE) --extra cluster --output-file deploy/locks/server.txt pyproject.toml -
	printf 'hatchling\neditables\n' | $(UV_COMPILE) --extra dev --output-file deploy/locks/dev.txt pyproject.toml -
	printf 'pip-audit\n' | $(UV_COMPILE) --output-file deploy/locks/audit.txt -

UV_COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

sbom: $(VENV)/.dev           ## the bill of materials of a release (CycloneDX)
	mkdir -p dist
	$(BIN)/python deploy/sbom.py --extra cluster > dist/headwater.cdx.json

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

# With LOCKED=1, as in CI, exactly the distributions of the lock are installed, and their hashes are checked.
$(VENV)/.dev: $(VENV)/.pip pyproject.toml
ifdef LOCKED
	$(BIN)/python -m pip install --quiet --require-hashes --requirement deploy/locks/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
else
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
endif
	touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[dev,bench]"
	touch $@
