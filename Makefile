# `make demo` and `make test` need nothing beforehand but python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test lint check bench clean

demo: $(VENV)/.demo
	@$(BIN)/llmstream demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -q $(PYTEST_ARGS)

lint: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" scripts/lint

check: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" scripts/check

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

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV)
