# Two commands that need nothing but Python, make, git and a shell: `make demo` shows the main job in the lab, and `make test` runs
# the tests that need no more than that and are quick.  At its end it says what it left to `make test-all`: everything that this
# machine has the real parts for (sshd, docker, systemd ...; what it lacks is left out with a line for each; RUNBOOK_TEST_ALL=1
# makes that an error).  `make faults` holds every playbook against every fault of the lab, which takes minutes of its own.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -p no:cacheprovider
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * len(os.sched_getaffinity(0))))')

.PHONY: demo test test-all faults lint check bench docs clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "runbook needs Python 3.11 or newer; say which with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(VENV)/.installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/demo.sh

test: $(VENV)/.installed
	@began=$$(date +%s); $(PYTEST) -n $(WORKERS) --dist worksteal --suite=basic $(ARGS) || exit; \
	echo "make test: passed in $$(($$(date +%s) - began)) s; left to make test-all, too: lint"

test-all: $(VENV)/.installed lint
	$(PYTEST) -n $(WORKERS) --dist worksteal --suite=all $(ARGS)

faults: $(VENV)/.installed
	$(PYTEST) -p no:randomly -m faults $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	find engine -name '*.sh' -exec $(BIN)/shellcheck -S warning {} +  # .shellcheckrc: what does not count, and why
	$(BIN)/lint-imports --no-cache | tail -n 12

bench: $(VENV)/.installed
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.fleet --peers "$(PEERS)"
	$(BIN)/python -m tests.bench.gateways
	$(BIN)/python -m tests.bench.size
	$(BIN)/python -m tests.bench.reports

# The documentation's site, in site/: nothing else needs mkdocs.
$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "make docs: built site/index.html"

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
