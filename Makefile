# Every target sets itself up in .venv; nothing but Python 3.11 or newer and make is needed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv-bench
SESSIONS := shared rllib agilerl
SEEDS := 0 1 2
OUT := models

.PHONY: help setup demo test lint agreement models models-check test-libraries learn-libraries bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Make .venv with everything in it

# torch first and at its pinned version, so that nothing that depends on it chooses another. On Linux the public index has
# CUDA builds of several gigabytes; where only the CPU is wanted, let pip find a CPU wheel of that version (see README).
$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (once, a few minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,play,test,libraries]'
	@touch $(READY)

demo: $(READY)  ## Train two players for eight minutes, evaluate, export, evaluate the exported file
	@$(BIN)/python -m training.demo

test: $(READY)  ## Run all tests
	@$(BIN)/python -m pytest

lint: $(READY)  ## Check style, types and import directions
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

agreement: $(READY)  ## Compare the engines with a naive oracle over 20,000 rounds
	@$(BIN)/python -m tests.agreement --rounds 20000

models: $(READY)  ## Train the seeds of a recipe, or go on, and release their median: make models TARGET=8x8-2p
	@$(BIN)/python -m training.recipe $(TARGET) --seeds $(SEEDS) --out $(OUT)

models-check: $(READY)  ## Play all rounds on the cards of released models again, or on TARGET's; ROUNDS=200 for fewer
	@$(BIN)/rolit check $(TARGET) $(if $(ROUNDS),--rounds $(ROUNDS))

test-libraries: $(READY)  ## Train a little with each other library, RLlib and AgileRL in environments of their own, .nox
	@$(BIN)/nox --session $(SESSIONS)

# The table is filled in with what there is, also when some library has failed.
learn-libraries: $(READY)  ## Train five minutes with each other library and fill in the table of docs/libraries.md
	@$(BIN)/nox --session $(SESSIONS) -- --learn; failed=$$?; $(BIN)/python docs/libraries.py table && exit $$failed

# The peers bring libraries that nothing else here needs, so they have an environment of their own.
$(BENCH)/.ready: pyproject.toml constraints.txt constraints-bench.txt
	@echo "Setting up $(BENCH) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--constraint constraints-bench.txt --editable '.[train,play,bench]'
	@touch $(BENCH)/.ready

bench: $(BENCH)/.ready  ## Measure speed beside other libraries and fill in the tables of README.md and docs/speed.md
	@$(BENCH)/bin/rolit bench --json docs/bench.json
	@$(BENCH)/bin/python docs/speed_table.py

clean:  ## Remove .venv and caches (runs/ stays)
	@rm -rf .venv .nox $(BENCH) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
