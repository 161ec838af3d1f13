# Everything sets itself up: `make run` and `make test` need only python3, python3-venv, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: run test lint bench i18n clean

# The package alone, into its own virtual environment.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "anycard needs Python 3.11 or newer; this is `$(PYTHON) --version`. Set PYTHON=..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "python3 cannot make a virtual environment: apt-get install python3-venv"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,postgres]'
	@touch $@

run: $(STAMP)  ## bring the platform up, run the example batch, show what came of it
	@PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/python examples/digits/show.py

test: $(DEV_STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile $(PYTEST_ARGS)

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV_STAMP)
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.daemon
	$(BIN)/python -m benchmarks.page
	$(BIN)/python -m benchmarks.telemetry

i18n: $(DEV_STAMP)  ## extract new messages, merge them into the Chinese catalogue, compile it
	$(BIN)/python tools/i18n.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
