# Locked Room: every command of the house. `make` alone lists them.
#
# You need git, make and Python 3.11 to 3.13; nothing else, and nothing is set by hand. The first `make demo` installs
# Poetry into .poetry/ and the course's locked packages into .venv/, both inside this folder; later ones start at once.
#
#   make demo PYTHON=python3.12    choose the Python
#   make demo V=1                  show what the installers say

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test slow lint format learn hub notebooks lock clean

DEMO_DATASET := data/datasets/math_dev.jsonl
DEMO_ROLLOUTS := data/rollouts/frozen_rollouts_dev

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: .venv/core.stamp ## Measure a language model, see why it fails, and ask if a second run is better
	$(call run,-m course.eval --dataset $(DEMO_DATASET) --completions $(DEMO_ROLLOUTS).jsonl --outdir runs/demo/first --overwrite)
	$(call run,-m course.inspect_run --run runs/demo/first --only-fails --show 1)
	$(call run,-m course.eval --dataset $(DEMO_DATASET) --completions $(DEMO_ROLLOUTS)_seed4.jsonl --outdir runs/demo/second --overwrite)
	$(call run,-m course.compare --baseline runs/demo/first --candidate runs/demo/second) || [ $$? -eq 1 ]
	@printf '\nNothing differs between the two runs but the seed: a better number is not yet a better model.\n'
	@printf 'To run these yourself, first type:  source .venv/bin/activate\n'

test: lint ## Lint, types and every test but the slow ones
	$(call run,-m pytest -m "not slow")

slow: .venv/dev.stamp ## The long proofs
	$(call run,-m pytest -m slow) || { [ $$? -eq 5 ] && echo 'There is no slow test yet.'; }

lint: .venv/dev.stamp ## Style, formatting, types, and the lock file
	$(call run,-m ruff check .)
	$(call run,-m ruff format --check .)
	$(call run,-m mypy)
	@$(check_lock)

format: .venv/dev.stamp ## Rewrite the code in the house style
	$(call run,-m ruff check --fix-only .)
	$(call run,-m ruff format .)

learn: .venv/learn.stamp ## Add what the policy and training need (on Linux, gigabytes)

hub: .venv/hub.stamp ## Add served models, LoRA and data from the hub (as large)

notebooks: .venv/notebooks.stamp ## Add Jupyter

lock: .poetry/ready ## Write poetry.lock anew, after a change in pyproject.toml
	@$(poetry) lock
	@$(check_lock)

clean: ## Remove all that make has made: environments, caches, the demo's runs
	rm -rf .poetry .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache runs/demo
	find . -name __pycache__ -prune -exec rm -rf {} +

# Show a command as a student would type it, then run it.
define run
@printf '\n$$ python %s\n' '$(1)'; .venv/bin/python $(1)
endef


# --- Installing. Each step leaves a file that make compares with its causes, so a step whose causes are older is skipped.

POETRY_REQUIREMENTS := 'poetry>=2.5,<2.6' 'poetry-plugin-pypi-mirror>=0.6,<0.7'

# Extras that `make test` installs as well. Nothing here removes an extra that is already installed.
TEST_EXTRAS := learn

# Another environment that happens to be active must not be the one we install into.
unexport VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYTHONHOME PYTHONPATH
export POETRY_VIRTUALENVS_CREATE := true
export POETRY_VIRTUALENVS_IN_PROJECT := true
export POETRY_REQUESTS_TIMEOUT := 60
# A keyring may wait for ever for a password that nobody is there to type.
export PYTHON_KEYRING_BACKEND := keyring.backends.null.Keyring

# An environment whose Python has gone (upgrading the system does that) is built anew.
.PHONY: $(shell for env in .poetry .venv; do [ -x $$env/bin/python ] || echo $$env/ready; done)

.poetry/ready:
	@$(find_python); $(call stage,1/2 installing Poetry into .poetry/,$(install_poetry))
	@touch $@

# An environment that you made yourself with `poetry install` is kept.
.venv/ready: | .poetry/ready
	@[ -x .venv/bin/python ] || .poetry/bin/python -m virtualenv --quiet --clear --prompt locked-room .venv
	@touch $@

.venv/core.stamp: pyproject.toml poetry.lock .venv/ready
	@$(call stage,2/2 installing the course into .venv/,$(poetry) install --only main)
	@touch $@

.venv/dev.stamp: pyproject.toml poetry.lock .venv/ready
	@$(call stage,2/2 installing the course and its tests into .venv/,$(poetry) install $(TEST_EXTRAS:%=--extras %))
	@touch $@ .venv/core.stamp

.venv/learn.stamp .venv/hub.stamp .venv/notebooks.stamp: .venv/%.stamp: pyproject.toml poetry.lock .venv/ready
	@$(call stage,2/2 installing the extra '$*' into .venv/,$(poetry) install --only main --extras $*)
	@touch $@ .venv/core.stamp

# $(call stage,NAME,COMMAND): one line per step, with its seconds. The command is heard only if it fails, or with V=1.
define stage
printf '%s ... ' "$(1)"; began=$$(date +%s); log=$$(mktemp); \
if { $(2); } $(if $(V),,>"$$log" 2>&1 )</dev/null; then \
    rm -f "$$log"; echo "$$(($$(date +%s) - began)) s"; \
else \
    echo 'failed'; tail -n 40 "$$log"; rm -f "$$log"; printf '%s\n' "$$INSTALL_ADVICE"; exit 1; \
fi
endef

define INSTALL_ADVICE

The step above failed; its last lines say why. What most often helps:
  - no network, or a proxy?   Packages come from the index that pip uses: see `pip config list`, PIP_INDEX_URL and
                              HTTPS_PROXY. Try again when `pip download rich` works. What has arrived is kept.
  - a full disk?              The course needs about 600 MB.
  - a new dependency?         `make lock` fits poetry.lock to pyproject.toml.
  - something else?           `make clean`, then `make demo V=1` shows every line.
endef
export INSTALL_ADVICE

# Set `python` to the first command that is a Python we support and can make environments, or stop and say what to install.
define find_python
python=; without_venv=; \
for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
    case $$("$$candidate" -c "$$PROBE_PYTHON" 2>/dev/null) in \
        ready) python=$$candidate; break ;; \
        no-venv) without_venv=$$candidate ;; \
    esac; \
done; \
if [ -z "$$python" ] && [ -n "$$without_venv" ]; then \
    echo "$$without_venv cannot make virtual environments: its 'venv' module is missing."; \
    echo "On Debian and Ubuntu:  sudo apt install python3-venv   (then run make again)"; exit 3; \
elif [ -z "$$python" ]; then \
    echo "The course needs Python 3.11, 3.12 or 3.13, and $(if $(PYTHON),'$(PYTHON)' is not one,none was found)."; \
    echo "Install one (python.org, brew install python@3.13, sudo apt install python3.13-venv), then run make again,"; \
    echo "or name yours:  make demo PYTHON=/path/to/python3.12"; exit 3; \
fi
endef

define PROBE_PYTHON
import sys
from importlib.util import find_spec
if (3, 11) <= sys.version_info < (3, 14):
    print("ready" if find_spec("ensurepip") and find_spec("venv") else "no-venv")
endef
export PROBE_PYTHON

define install_poetry
"$$python" -m venv --clear .poetry && .poetry/bin/python -m pip install --no-user --disable-pip-version-check --no-input $(POETRY_REQUIREMENTS)
endef

# Poetry, told to use the index, certificates and proxy that pip would use. On its own, Poetry knows only the public index
# and its JSON pages; many company and university networks have another index, or one that serves plain HTML alone.
define poetry
eval "$$(.poetry/bin/python -c "$$FOLLOW_PIP")" && .poetry/bin/python -m poetry --no-interaction
endef

define FOLLOW_PIP
import os
from shlex import quote
from pip._internal.commands import create_command
pip = create_command("install").parser.get_default_values()  # pip's own defaults, pip.conf and PIP_* variables, merged.
settings = {
    "POETRY_PYPI_MIRROR_URL": pip.index_url,
    "REQUESTS_CA_BUNDLE": pip.cert,
    "HTTP_PROXY": pip.proxy,
    "HTTPS_PROXY": pip.proxy,
}
for name, value in settings.items():
    if value and name not in os.environ:
        print(f"export {name}={quote(value)}")
endef
export FOLLOW_PIP

# The lock fits pyproject.toml, names no index, and has one version of every package: of two nvidia-* versions, both would
# be installed over each other, and torch would crash.
define check_lock
$(poetry) check --lock --strict >/dev/null || { echo 'Mend pyproject.toml, or write the lock anew: make lock.'; exit 1; }; \
if grep -n -e '://' -e '^\[package.source\]' poetry.lock; then echo 'poetry.lock names an index: see above.'; exit 1; fi; \
twice=$$(sed -n 's/^name = //p' poetry.lock | sort | uniq -d); \
if [ -n "$$twice" ]; then echo "poetry.lock holds two versions of" $$twice; exit 1; fi
endef
