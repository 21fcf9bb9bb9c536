# Needs Python >= 3.11 and make; everything else is installed below .venv and .demo.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
JOBS ?= auto
SCALE ?= 1

.PHONY: help demo test fuzz soak zoo check bench lint format docs release clean

help:
	@echo "make demo    build the examples' wheels, install them into a fresh environment, time first answers"
	@echo "make test    install the development environment into $(VENV) and run the tests"
	@echo "make soak    call, load and close a million times and from 16 threads; memory must not grow (SCALE=0.1)"
	@echo "make fuzz    fuzz what reads files and messages (SECONDS=600 in all, or RUNS= of each; SEED=; FUZZ=names)"
	@echo "make zoo     build and call the programs of tests/zoo, on the oldest jax and the newest"
	@echo "make check   before each commit: lint, and the tests that start no process; under a minute"
	@echo "make bench   measure everything that is claimed about speed (BENCH=--quick: few rounds)"
	@echo "make lint    ruff and mypy"
	@echo "make docs    build the site of the docs into site/, from an environment of its own"
	@echo "make release rehearse a release: build and check what the workflow publishes"
	@echo "make format  let ruff rewrite the sources"

define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.exit("aotbuild needs Python 3.11 or newer, $(PYTHON) is " \
	+ sys.version.split()[0] + "; give another: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
endef

$(VENV)/.installed: pyproject.toml
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]'
	touch $@

demo:
	$(CHECK_PYTHON)
	$(PYTHON) tools/demo.py

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(BENCH)

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

# atheris instruments what a process imports, so it has an environment of its own. Where it has no
# wheel, the environment is made without it, and run.py says that nothing is fuzzed.
$(VENV)-fuzz/.installed: pyproject.toml tests/fuzz/requirements.txt | $(VENV)/.installed
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-fuzz
	$(BIN)/uv pip install --quiet --python $(VENV)-fuzz/bin/python --editable '.[dev]'
	$(BIN)/uv pip install --quiet --python $(VENV)-fuzz/bin/python --only-binary atheris \
		--requirement tests/fuzz/requirements.txt && touch $@ || echo "atheris cannot be installed"

SECONDS ?= 600
fuzz: $(VENV)-fuzz/.installed
	$(VENV)-fuzz/bin/python tests/fuzz/run.py \
		$(if $(RUNS),--runs $(RUNS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(FUZZ)

soak: $(VENV)/.installed
	JAX_PLATFORMS=cpu $(BIN)/python tests/soak/soak.py --scale $(SCALE)

# The libraries of the zoo, for the oldest jax and the newest.
PYTHON_oldest ?= 3.11
PYTHON_newest ?= 3.12
ZOO ?= oldest newest

$(VENV)-zoo-%/.installed: tests/zoo/requirements-%.txt | $(VENV)/.installed
	$(BIN)/uv venv --quiet --clear --python $(PYTHON_$*) $(VENV)-zoo-$*
	$(BIN)/uv pip install --quiet --python $(VENV)-zoo-$*/bin/python --no-deps --requirements $< --editable .
	touch $@

zoo: $(VENV)/.installed $(ZOO:%=$(VENV)-zoo-%/.installed)
	$(BIN)/python -m pytest tests/zoo -n $(JOBS) $(ZOO:%=--zoo %) $(ARGS)
	$(BIN)/python tests/zoo/table.py

check: lint
	$(BIN)/python -m pytest --check -n $(JOBS) --dist loadfile --quiet $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)-docs/.installed: pyproject.toml | $(VENV)/.installed
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-docs
	$(BIN)/uv pip install --quiet --python $(VENV)-docs/bin/python --editable '.[docs]'
	touch $@

docs: $(VENV)-docs/.installed
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict

release: $(VENV)/.installed
	$(BIN)/python tools/release.py --out dist

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-fuzz $(VENV)-zoo-* .bench .demo .fuzz .zoo dist site
