# Every target sets up what it needs, from a bare Python >= 3.11.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests examples benchmarks scripts

.DEFAULT_GOAL := help
.PHONY: help recall test check lint types wheel docs clean

help:
	@echo "make recall   store patterns in a memory, damage them, get them back, and look at them"
	@echo "make test     run the tests"
	@echo "make check    lint, types, tests, and an install of the built wheel: what must pass before a change lands"
	@echo "make docs     build the documentation into site/"
	@echo "make clean    remove the virtual environment and all caches"

# uv installs in seconds where it is there; pip does the same in a minute.
# usage: $(call install,ENVIRONMENT,PACKAGES)
define install
	@if command -v uv >/dev/null 2>&1; then \
	    uv pip install --quiet --python $(1)/bin/python --constraint constraints.txt $(2); \
	else \
	    $(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(2); \
	fi
endef

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ebmm needs Python >= 3.11; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	@echo "Creating .venv"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/user: .venv/created pyproject.toml constraints.txt
	@echo "Installing ebmm (JAX included, about 0.7 GB the first time)"
	$(call install,.venv,--editable '.[demo]')
	@touch $@

.venv/dev: .venv/created pyproject.toml constraints.txt
	@echo "Installing ebmm and its development tools (JAX included, about 0.9 GB the first time)"
	$(call install,.venv,--editable '.[dev]')
	@touch $@

.venv/docs: .venv/dev
	$(call install,.venv,--editable '.[docs]')
	@touch $@

recall: .venv/user
	@$(BIN)/ebmm recall

test: .venv/dev
	@$(BIN)/python -m pytest

lint: .venv/dev
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

types: .venv/dev
	@$(BIN)/pyright

# The wheel has to work where there is no checkout: an empty environment in a folder of its own.
wheel: .venv/dev
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$$scratch" .; \
	 $(PYTHON) -m venv "$$scratch/venv"; \
	 "$$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$scratch"/ebmm-*.whl; \
	 cd "$$scratch"; venv/bin/python -c 'import ebmm; print("wheel:", ebmm.__version__, "imports")'; \
	 venv/bin/ebmm --help >/dev/null; echo "wheel: ebmm --help answers"

check: lint types test wheel

# The pages as they lie in the repository, so that links to results, examples and cards lead to pages too.
docs: .venv/docs
	@rm -rf build/pages; mkdir -p build/pages
	@cp -r README.md CHANGELOG.md CONTRIBUTING.md CITATION.cff LICENSE docs results examples build/pages
	@for card in src/ebmm/bundled_models/*/README.md; do mkdir -p "build/pages/$$(dirname $$card)"; cp $$card "build/pages/$$card"; done
	@$(BIN)/zensical build --strict

clean:
	rm -rf .venv .cache build dist site
