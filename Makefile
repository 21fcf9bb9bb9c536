# Needs Python >= 3.11 and make; everything else is installed below .venv and .demo.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
JOBS ?= auto

.PHONY: help demo test lint format clean

help:
	@echo "make demo    build the example's wheel, install it into a fresh environment, call it"
	@echo "make test    install the development environment into $(VENV) and run the tests"
	@echo "make lint    ruff and mypy"
	@echo "make format  let ruff rewrite the sources"

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo:
	$(PYTHON) tools/demo.py

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .demo dist
