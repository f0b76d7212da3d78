# `make demo` trains a tagger on real data; `make test` runs the suite. Both need only Python 3.11
# or newer, pip and make; PYTHON=python3.12 chooses another interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Two test processes on two cores; each compiles and runs small programs.
WORKERS ?= 2

.PHONY: demo test test-fast test-full lint clean

$(VENV)/.installed: requirements.txt pyproject.toml
	@$(PYTHON) attention/python_version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,data]'
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/python train.py --config=configs/pos_tagging.py:size=tiny --workdir=runs/demo
	$(BIN)/python eval.py --workdir=runs/demo --split=test
	@echo 'first, to type python for $(BIN)/python:  source $(BIN)/activate'
	@echo 'two more tasks:'
	@echo "  $(BIN)/python -m pip install -e '.[data]'    # their default data"
	@echo '  $(BIN)/python train.py --config=configs/sentiment.py:size=tiny --workdir=runs/sentiment'
	@echo '  $(BIN)/python train.py --config=configs/translation.py:size=tiny --workdir=runs/translation'

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist=worksteal

test-fast: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) -m 'fast and not long'

test-full: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist=worksteal -m 'slow or mutants'

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
