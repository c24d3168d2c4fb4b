# `make train` and `make test` are the two commands of the README; each works alone on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
VERSION_CHECK := import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else f"unetkit needs Python 3.11 to 3.13, and {sys.executable} is {v[0]}.{v[1]}. Name another one: make PYTHON=python3.12 ...")

.PHONY: train test lint parity clean

train: .venv/installed-train
	$(BIN)/unetkit train recipes/emoji.yaml

# Two processes: each file's tests stay together, so that what a file caches is made once.
test: .venv/installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What tensorflow-addons itself computes from random inputs, beside what unetkit.addons makes of them. The original needs
# Python 3.11 and TensorFlow 2.15, so it has an environment of its own: `make parity PARITY_PYTHON=python3.11 PARITY_SEED=1`.
PARITY_PYTHON ?= python3.11
PARITY_SEED ?= 0
PARITY := .venv-parity
PINS := import configparser; c = configparser.ConfigParser(); c.read("setup.cfg"); print(c["options.extras_require"]["addons-parity"])

parity: $(PARITY)/installed .venv/installed-test
	$(PARITY)/bin/python -W ignore tests/addons/parity_records.py $(PARITY)/records $(PARITY_SEED)
	KERAS_BACKEND=tensorflow $(BIN)/python tests/addons/addons_records.py $(PARITY)/records
	KERAS_BACKEND=jax JAX_PLATFORMS=cpu $(BIN)/python tests/addons/addons_records.py $(PARITY)/records

$(PARITY)/installed: setup.cfg
	$(PARITY_PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python -c '$(PINS)' > $(PARITY)/pins.txt
	$(PARITY)/bin/python -m pip install -q -r $(PARITY)/pins.txt
	touch $@

.venv/bin/python:
	@$(PYTHON) -c '$(VERSION_CHECK)'
	$(PYTHON) -m venv .venv

.venv/installed-train: .venv/bin/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install -q -e '.[cpu]'
	touch $@

.venv/installed-test: .venv/bin/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install -q -e '.[cpu,jax,analysis,export,sound,wandb,tensorboard,dev]'
	touch $@ .venv/installed-train

clean:
	rm -rf .venv $(PARITY) build *.egg-info
