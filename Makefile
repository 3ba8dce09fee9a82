# Two commands that need nothing but Python, make, git and a shell: `make demo` shows the main job in the lab, and `make test` runs
# the tests that need no more than that and are quick.  At its end it says what it left out.  `make lint test test-real docs` is what
# the gate (.ci/run) runs; `make soak` is everything, by hand before a release.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
# constraints.txt pins every package, for builds as well (PIP_BUILD_CONSTRAINT: pip 25.3 and newer); `make pins` renews it
PIP = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 3
PYTEST = $(BIN)/python -m pytest
CORES = len(os.sched_getaffinity(0))
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * $(CORES)))')
REAL_WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(12, 3 * $(CORES)))') # they mostly wait for other programs

.PHONY: demo test test-real test-soak soak lint pins bench docs clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "runbook needs Python 3.11 or newer; say which with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[test]'
	@touch $@

demo: $(VENV)/.installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/demo.sh

test: $(VENV)/.installed
	@began=$$(date +%s); $(PYTEST) -n $(WORKERS) --dist loadfile --suite=basic $(ARGS) || exit; \
	echo "make test: passed in $$(($$(date +%s) - began)) s"

# What needs root, sshd, Docker, systemd ...: what this machine lacks is left out with a line for each; RUNBOOK_TEST_ALL=1 makes that an error.
test-real: $(VENV)/.installed
	$(PYTEST) -n $(REAL_WORKERS) --dist loadfile --no-loadscope-reorder --suite=real --durations=25 --durations-min=3 $(ARGS)

# Everything but the bare machine, in random order and with random examples; then every playbook against every fault of the lab.
test-soak: $(VENV)/.installed
	$(PYTEST) -p randomly -n $(WORKERS) --dist loadfile --hypothesis-profile=soak --suite=all $(ARGS)
	$(PYTEST) -m faults $(ARGS)

soak:
	.ci/run bare-root soak

lint: $(VENV)/.installed
	$(BIN)/ruff format --check --quiet --output-format concise . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	$(BIN)/ruff check --quiet --output-format concise .
	$(BIN)/mypy
	find engine -name '*.sh' -exec $(BIN)/shellcheck -S warning {} +  # .shellcheckrc: what does not count, and why
	$(BIN)/lint-imports --no-cache

pins:
	$(PYTHON) -m venv $(VENV)/pins
	$(VENV)/pins/bin/python -m pip install --quiet --disable-pip-version-check pip-tools
	CUSTOM_COMPILE_COMMAND="make pins" $(VENV)/pins/bin/pip-compile --quiet --upgrade --all-extras --all-build-deps --strip-extras \
	  --no-emit-options --no-annotate --output-file=constraints.txt pyproject.toml

bench: $(VENV)/.installed
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.fleet --peers "$(PEERS)"
	$(BIN)/python -m tests.bench.gateways
	$(BIN)/python -m tests.bench.size
	$(BIN)/python -m tests.bench.reports

# The documentation's site, in site/: nothing else needs mkdocs.
$(VENV)/.docs: $(VENV)/.installed
	$(PIP) -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python docs/hooks/reference.py  # the keys of the language, in docs/language.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "make docs: built site/index.html"

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
