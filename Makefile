# Every target sets itself up: `make demo` and `make test` work on a fresh checkout with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo demo-live test test-live check clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(VENV)/installed ## explain two small recorded runs, one of them with a slow rank
	@$(BIN)/stepscope demo

demo-live: $(VENV)/installed-live ## real faults in a real job on this machine, in 2 minutes (as root on Linux: on two nodes)
	@$(BIN)/python examples/two_nodes.py -f -o $(VENV)/demo-live/job.run \
		--fault slow-wire --fault starved-cpu --fault stop-pulses --fault gc-pause

test: $(VENV)/installed-dev ## run the tests on two processes
	$(BIN)/python -m pytest -n 2

test-live: $(VENV)/installed-dev $(VENV)/installed-live ## the tests that run real jobs with torch, which `make test` skips without it
	$(BIN)/python -m pytest -n 2 tests/recorder tests/examples tests/planner/test_live.py

check: $(VENV)/installed-dev ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean: ## remove the virtual environment and everything that the tools left
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "stepscope needs Python 3.11 or newer; $(PYTHON) is not. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment; \
on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

# pip's own words are shown when it fails. The stamps make a second run instant.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "installing stepscope into $(VENV) ..." >&2
	@$(PIP) install -e .
	@touch $@

$(VENV)/installed-live: pyproject.toml | $(BIN)/python
	@echo "installing stepscope and torch into $(VENV) ..." >&2
	@$(PIP) install -e '.[live]'
	@touch $(VENV)/installed $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing stepscope and what its tests need into $(VENV) ..." >&2
	@$(PIP) install -e '.[dev]'
	@touch $(VENV)/installed $@
