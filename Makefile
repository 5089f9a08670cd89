# `make demo` shows kipctl on a real cluster, `make test` checks it, `make check` checks what
# needs no cluster, no Spark and little time; each sets up all it needs.

VENV := .venv
BIN := $(VENV)/bin

# Packages that build others are held to the same versions (pip reads one name or the other).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Many tests start Python: without compiled modules each of them compiles anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Tests at a time: more than there are cores, as most of those on brokers wait. Which process runs
# which of them is decided in tests/scheduling.py.
PROCESSES := 4
PYTEST := $(BIN)/pytest -n $(PROCESSES)

.PHONY: demo check lint test soak durations generate lock wheel java kerberos clean

demo: $(VENV)/installed java
	$(BIN)/kipctl demo

# The inner loop.
check: lint
	$(BIN)/pytest -n 2 -m 'not kafka and not spark' --brief

lint: $(VENV)/installed-for-tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: java kerberos
	@$(MAKE) --jobs 2 lint $(VENV)/tests-compiled
	$(PYTEST)

# In a fresh clone: by one process, beside mypy, and not by each of those that run tests.
$(VENV)/tests-compiled: $(VENV)/installed-for-tests
	-$(BIN)/pytest --collect-only --quiet >/dev/null
	@touch $@

# An hour of what `make test` does little of: many seeds, versions and kills.
soak: $(VENV)/installed-for-tests java
	KIPCTL_SOAK=1 $(PYTEST) -m campaign --timeout 3600

# How long each file of tests takes, for the next runs of `make test`.
durations: $(VENV)/installed-for-tests java
	$(PYTEST) --write-durations

# The man pages and the completions, from the commands themselves.
generate: $(VENV)/installed-for-tests
	$(BIN)/python -m kipctl.generate

# What installs take: of what kipctl needs the versions of constraints.txt, and their SHA-256; of an
# extra what it adds.
LOCK := $(BIN)/uv --no-config pip compile --quiet --generate-hashes --no-annotate \
	--custom-compile-command 'make lock' --python-platform linux --python-version 3.11 \
	--constraint constraints.txt pyproject.toml
ADDED := grep -vxFf kipctl/locked.txt
lock: $(VENV)/installed-for-tests
	$(LOCK) --output-file kipctl/locked.txt
	for extra in connect kerberos msk spark; do \
		{ head -2 kipctl/locked.txt; echo '-r locked.txt'; $(LOCK) --extra $$extra | $(ADDED); } \
			> kipctl/locked-$$extra.txt || exit; \
	done

wheel:
	rm -rf dist
	python3 -m pip wheel --quiet --no-deps --wheel-dir dist .

java:
	@.ci/setup java

# Its tests are among those of a machine that has what they need, or may get it.
kerberos: $(VENV)/installed-for-tests
	@.ci/setup kerberos $(VENV)

$(VENV)/installed: EXTRAS := spark
$(VENV)/installed-for-tests: EXTRAS := connect,msk,dev
$(VENV)/installed $(VENV)/installed-for-tests: pyproject.toml constraints.txt
	.ci/setup venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
