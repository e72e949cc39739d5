# Needs Python 3.11 or later; a C++ compiler is used if there is one. `make` alone lists the targets.

PYTHON ?= python3
TORCH ?= torch==2.13.0
# Arguments for pytest: `make test PYTEST_ARGS="-k step"`, `make test PYTEST_ARGS="-n 2 --run-slow"`.
PYTEST_ARGS ?= -n 2
# Threads for each test process, so that the processes do not fight over the cores.
TEST_THREADS ?= 1
# Compiled Python is kept, whatever the environment says: else every process of the tests compiles all of it again.
KEEP_COMPILED := PYTHONDONTWRITEBYTECODE=
# Cases of each kind in `make fuzz`, and rounds at each vector width in `make sanitize`.
FUZZ_CASES ?= 300
SANITIZE_ROUNDS ?= 500
# The order of the tests in `make test-busy`: another one each time.
SEED ?= $(shell date +%s)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(wildcard longwave/ops/cpu/*.cpp longwave/ops/cpu/*.inc)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test test-busy test-interop test-gpu test-browser test-versions fuzz sanitize portable check \
    lint format demo bench results docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv and install longwave into it, in place, with everything the other targets need

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "longwave needs Python 3.11 or later; name one with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch is named in the same command, so that no other version of it is fetched on the way.
# The install is in place and compiles the kernel anew each time.
$(STAMP): pyproject.toml setup.py $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install "$(TORCH)" -e ".[docs,dev,tensorboard]"
	@touch $@

test: $(STAMP)  ## run the tests (PYTEST_ARGS="...")
	$(KEEP_COMPILED) OMP_NUM_THREADS=$(TEST_THREADS) $(BIN)/python -m pytest $(PYTEST_ARGS)

test-busy: $(STAMP)  ## the same as on an older, busy machine and in random order (SEED=... repeats one)
	$(KEEP_COMPILED) OMP_NUM_THREADS=$(TEST_THREADS) tests/busy.sh $(BIN)/python -m pytest $(PYTEST_ARGS) --random-order $(SEED)

# aeon, sktime, captum, lightning and transformers are large: they have an environment of their own.
INTEROP := .venv-interop
$(INTEROP)/.installed: pyproject.toml | $(STAMP)
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install "$(TORCH)" -e ".[interop,dev]"
	@touch $@

test-interop: $(INTEROP)/.installed  ## the checks of scikit-learn and aeon, and tests with other libraries
	$(KEEP_COMPILED) OMP_NUM_THREADS=$(TEST_THREADS) $(INTEROP)/bin/python -m pytest $(PYTEST_ARGS) tests/interop

# The oldest or newest dependencies that pyproject.toml allows, in an environment of their own; lowest-direct or highest.
# TORCH_BACKEND= takes torch from PyPI, with CUDA (5.7 GB), where the index that torch keeps is out of reach.
RESOLUTION ?= lowest-direct
TORCH_BACKEND ?= auto
test-versions:  ## the tests of the core with RESOLUTION=lowest-direct or highest dependencies
	$(PYTHON) -m venv .venv-$(RESOLUTION)
	.venv-$(RESOLUTION)/bin/python -m pip install -q uv
	.venv-$(RESOLUTION)/bin/uv pip install --python .venv-$(RESOLUTION) --resolution $(RESOLUTION) \
	    $(if $(TORCH_BACKEND),--torch-backend $(TORCH_BACKEND)) -e ".[test]"
	$(KEEP_COMPILED) OMP_NUM_THREADS=$(TEST_THREADS) .venv-$(RESOLUTION)/bin/python -m pytest $(PYTEST_ARGS) $(CORE)
# Without the checks of shapes, for which jaxtyping of that age has another plugin.
CORE := -o addopts="--import-mode=importlib --strict-markers" tests/core tests/ssm tests/ops tests/layers

# node and Chromium have to be there; the npm packages are those of the page.
BROWSER := examples/browser/node_modules
$(BROWSER)/.package-lock.json: examples/browser/package.json examples/browser/package-lock.json
	npm ci --prefix examples/browser --no-audit --no-fund --loglevel=error
	@touch $@

test-browser: $(STAMP) $(BROWSER)/.package-lock.json  ## an exported model in headless Chromium (node and Chromium have to be there)
	$(KEEP_COMPILED) OMP_NUM_THREADS=$(TEST_THREADS) $(BIN)/python -m pytest -rs tests/browser

# Triton is large, too, and with it torch would compile for GPUs.
WITH_TRITON := .venv-gpu
$(WITH_TRITON)/.installed: pyproject.toml | $(STAMP)
	$(PYTHON) -m venv $(WITH_TRITON)
	$(WITH_TRITON)/bin/python -m pip install "$(TORCH)" -e ".[gpu-test,dev]"
	@touch $@

test-gpu: $(WITH_TRITON)/.installed  ## the GPU kernels in Triton's interpreter, and compiled for six targets: without a GPU
	$(KEEP_COMPILED) OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(WITH_TRITON)/bin/python -m pytest tests/gpu/test_interpreted.py
	$(KEEP_COMPILED) OMP_NUM_THREADS=1 $(WITH_TRITON)/bin/python -m pytest tests/gpu/test_compiled.py

fuzz: $(STAMP)  ## thousands of damaged files through the commands, in processes of their own (FUZZ_CASES of each kind)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --cases $(FUZZ_CASES)

sanitize: $(STAMP)  ## the compiled library under AddressSanitizer and UBSan, with random sizes (SANITIZE_ROUNDS)
	OMP_NUM_THREADS=2 $(BIN)/python tests/sanitize.py --rounds $(SANITIZE_ROUNDS)

portable: $(STAMP)  ## the compiled library on other processors and systems, by the cross compilers and emulators found
	OMP_NUM_THREADS=1 $(BIN)/python tests/portable.py

lint: $(STAMP)  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test  ## everything that must pass before a change goes in

format: $(STAMP)  ## rewrite the files in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(STAMP)  ## train a small S4 on real data, compare it, stream it; ends with a report to open
	$(BIN)/python examples/demo.py

bench: $(STAMP)  ## the full speed tables on this machine
	$(BIN)/longwave bench kernel
	$(BIN)/longwave bench layer
	$(BIN)/longwave bench attention
	$(BIN)/longwave bench generation
	$(BIN)/longwave bench lssl

results:  ## write the tables of results into the pages and the README (docs/results/*.csv)
	$(PYTHON) docs/results_tables.py

docs: $(STAMP)  ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

clean:  ## remove what was built; .venv stays, and the next target installs anew
	rm -rf build dist longwave.egg-info docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f longwave/ops/cpu/_native*.so $(STAMP)
	find longwave tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
