# Everything a developer types. Each target makes the virtual environment itself; only python3 (with venv) and make are needed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-slow lint format bench docs wheels install clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml zeroclaw_daemon/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[sdk]' --editable zeroclaw_daemon --group dev
	touch $@

# The whole road on this machine, in a temporary HOME: key, build, sign, publish, install, prompt, refusals.
demo: $(INSTALLED)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh tools/demo.sh

# Everything that is neither slow nor bound to a real clock.
test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not realtime'

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow or realtime'

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/contract.py --check
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/security.py --check

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python -m benchmarks

# The pages that are generated from the code and from the tests.
docs: $(INSTALLED)
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/security.py

wheels: $(INSTALLED)
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist zeroclaw_daemon

clean:
	rm -rf $(VENV) .cache dist build
