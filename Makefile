# make run   compress SmolLM2-135M on this machine, end to end
# make test  the tests (make test-fast leaves out what is slow)
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOB ?= examples/smollm2-interactive.yaml
# PyTorch's CPU wheels are not on PyPI; the second try asks PyTorch's own index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test test-fast check crds install clean

run: install
	$(BIN)/autocompress run $(JOB)

test: install check
	$(BIN)/python -m pytest $(PYTEST)

test-fast: install
	$(BIN)/python -m pytest -m "not slow" $(PYTEST)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The cluster's resource definition, from the job's models.
crds: install
	@mkdir -p crds
	$(BIN)/autocompress schema --crd > crds/autocompress.dev_compressionjobs.yaml

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml Makefile $(wildcard requirements/*.txt)
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 15) else "Python 3.11 to 3.14 is needed, %s is %d.%d: make PYTHON=python3.12 ..." % (sys.executable, *v))'
	@echo "Installing into $(VENV) (about 3 GB; a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-deps -r requirements/torch-cpu.txt || \
	  $(PIP) install --no-deps -r requirements/torch-cpu.txt --index-url $(TORCH_INDEX)
	@$(PIP) install --no-deps -r requirements/cpu.txt -r requirements/dev.txt -r requirements/operator.txt -r requirements/cluster.txt
	@$(PIP) install --no-deps -r requirements/engine-cpu.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

include job_images/images.mk

clean:
	rm -rf $(VENV) build runs
