# `make run` and `make test` set up everything they need in .venv, from nothing but Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUNS := runs

.PHONY: help setup setup-dev run test coverage lint docs clean

help:
	@echo "make run       train a quick Frozen Lake teacher and compare it with the baselines (a few minutes)"
	@echo "make test      run the tests"
	@echo "make coverage  run the tests and say which lines of cisr they miss"
	@echo "make lint      ruff, mypy and who may import whom"
	@echo "make docs      build the documentation into site/"
	@echo "make setup     build .venv with cisr in it"

setup: $(VENV)/core
setup-dev: $(VENV)/dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "cisr needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version): run 'make PYTHON=python3.12 ...'"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@$(INSTALL) --only-binary :all: --editable '.[lander]' 2>/dev/null || \
		echo "There is no wheel of Box2D for this Python: Lunar Lander runs on its compiled twin. All else works."
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/docs: $(VENV)/core
	$(INSTALL) --editable '.[docs]'
	@touch $@

run: $(VENV)/core
	$(BIN)/cisr train frozen-lake --scale quick --store $(RUNS)/frozen-lake.sqlite \
		--curriculum $(RUNS)/optimized.json
	$(BIN)/cisr compare frozen-lake $(RUNS)/optimized.json SR1 SR2 HR HA bandit none --students 20 --scale quick \
		--deploy-each-unit --store $(RUNS)/frozen-lake.sqlite --figure $(RUNS)/frozen-lake.png \
		--json $(RUNS)/frozen-lake.json
	@echo "This was the quick scale: the paper's lake, our students with a small network, our teacher."
	@echo "The paper's own: cisr train frozen-lake --student cnn, or cisr reproduce frozen-lake --way paper; docs/results/frozen-lake.md says what they cost."
	@echo "Curriculum: $(RUNS)/optimized.json   Learning curves: $(RUNS)/frozen-lake.png"
	$(BIN)/cisr report $(RUNS)/frozen-lake.sqlite

test: $(VENV)/dev
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

coverage: $(VENV)/dev
	$(BIN)/python -m pytest --numprocesses 2 --cov --cov-report term --cov-report xml

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

clean:
	rm -rf $(VENV) $(RUNS) build dist site .coverage coverage.xml .mypy_cache .ruff_cache .pytest_cache
