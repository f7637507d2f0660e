# `make demo` and `make test` need nothing beforehand but python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Set in some containers; each program that a test starts would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint check docs docs-serve bench clean

demo: $(VENV)/.demo
	@$(BIN)/llmstream demo

# The quick tests: some 15,000 in two minutes on two cores. `make check` runs the slow ones too.
test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" scripts/lint

check: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" scripts/check

docs: $(VENV)/.docs
	PYTHON=$(BIN)/python scripts/docs

docs-serve: $(VENV)/.docs
	PYTHON=$(BIN)/python scripts/docs serve

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "llmstream needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV)
