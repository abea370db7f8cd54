# Needs only Python 3.11 or later, git and make. Everything is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test soak check format bench requirements clean

demo: $(READY)
	$(BIN)/agentlink demo

test: $(READY)
	$(BIN)/python -m pytest -n 4 --dist worksteal -q

soak: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m soak
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist worksteal -q tests/core tests/wire tests/journal

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/agentlink statechart export --check --out statecharts

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/agentlink statechart export --out statecharts

bench: $(READY)
	$(BIN)/python -m tests.bench

# After a change of the dependencies: makes the pinned set anew. Needs pip-tools.
requirements:
	$(PYTHON) -m piptools compile --quiet --extra lab --extra dev --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header -o .ci/requirements.txt pyproject.toml

$(READY): .ci/requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed (PYTHON=...)"; exit 1; }
	@echo "setting up .venv (once)…"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $(READY)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
