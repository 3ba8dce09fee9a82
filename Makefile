# Two commands: `make demo` shows the main job in the lab, `make test` runs every test that this machine can run, but for
# `make faults`: every playbook against every fault of the lab, which takes minutes of its own.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin

.PHONY: demo test faults lint check bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "runbook needs Python 3.11 or newer; say which with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(VENV)/.installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/demo.sh

test: $(VENV)/.installed lint
	$(BIN)/python -m pytest -n 6 --dist worksteal -p no:cacheprovider -m "not faults" $(ARGS)
	@echo "left to make faults: every playbook against every fault of the lab"

faults: $(VENV)/.installed
	$(BIN)/python -m pytest -p no:cacheprovider -p no:randomly -m faults $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache | tail -n 12

bench: $(VENV)/.installed
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
