# `make demo` shows kipctl on a real cluster, `make test` checks it, `make check` checks all of it
# that needs no cluster and no Spark; each sets up all it needs.

VENV := .venv
BIN := $(VENV)/bin

# Packages that build others are held to the same versions (pip reads one name or the other).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Many tests start Python: without compiled modules each of them compiles anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-on-clusters test-on-spark generate java clean

demo: $(VENV)/installed java
	$(BIN)/kipctl demo

# The inner loop.
check: $(VENV)/installed-for-tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --maxprocesses 8 -m 'not kafka and not spark'

test: $(VENV)/installed-for-tests java
	$(MAKE) --no-print-directory check
	# One group after the other: two tests at a time on clusters fill two cores, and so does Spark.
	$(MAKE) --no-print-directory test-on-clusters
	$(MAKE) --no-print-directory test-on-spark

test-on-clusters:
	$(BIN)/pytest -n 2 --dist worksteal -m 'kafka and not spark'

test-on-spark:
	$(BIN)/pytest -m spark

# The man pages and the completions, from the commands themselves.
generate: $(VENV)/installed-for-tests
	$(BIN)/python -m kipctl.cli.generate

java:
	@.ci/setup java

$(VENV)/installed: EXTRAS := spark
$(VENV)/installed-for-tests: EXTRAS := spark,dev
$(VENV)/installed $(VENV)/installed-for-tests: pyproject.toml constraints.txt
	.ci/setup venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
