"""What the documents say can be done can be done: commands compose; files, links, classes and targets exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from recipes import chat, doctor, environment, export, look, table
from recipes.cli import schema
from recipes.cli.sweep import swept_keys
from tests import warm
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]
LEFT_OUT = re.compile(r"(^|/)(\.|runs/|outputs/|build/|dist/)|CHANGELOG")
"""Hidden and made folders, and the changelog, which names what is no longer there."""
DOCUMENTS = sorted(file for file in ROOT.rglob("*.md") if not LEFT_OUT.search(str(file.relative_to(ROOT))))
DRY = "learning|run_ablation|episodes|reach"
"""Benchmarks that print their commands with --dry-run."""
SMALL = {
    "chat": chat.ChatConfig,
    "doctor": doctor.DoctorConfig,
    "export": export.ExportConfig,
    "look": look.LookConfig,
    "table": table.TableConfig,
}
ROOMS = "recipes|rewards|envs|conf|launch|tests"
FOLDERS = [
    "recipes",
    "recipes/trainers",
    "rewards",
    "envs",
    "envs/sandbox",
    "envs/etk",
    "envs/roboeval",
    "conf",
    "launch",
    "tests",
    "tests/bench",
]
"""Each has a README.md, for the reader who stands there."""
HOUR = "recipes/README.md"
"""The document with the section 'A first hour', which test_newcomer.py runs."""
MOST_LINES, MOST_WORDS = 130, 1000
FOR_THE_READER_TO_WRITE = {"rewards.mine.Mine", "rewards/comments.py", "rewards/mine.py", "rewards.comments.Comments"}


def in_documents(pattern: str) -> list[tuple[str, str]]:
    """Each match's first group beside the document that has it, once; shell variables set in a block stand expanded."""
    results = {
        (str(file.relative_to(ROOT)), match.group(1).strip())
        for file in DOCUMENTS
        for match in re.finditer(pattern, expanded(file.read_text()), re.MULTILINE)
    }
    return sorted(results)


def expanded(text: str) -> str:
    """Indented lines of a document with `$NAME` replaced by what `NAME="..."` above them in the block says."""
    lines, variables = [], {}
    for line in text.splitlines():
        if not line.startswith("    "):
            variables = {}
        for name, value in variables.items():
            line = re.sub(rf"\${name}\b", lambda _, value=value: value, line)
        if assigned := re.fullmatch(r' {4}(\w+)="?([^"]*)"?', line):
            variables[assigned[1]] = assigned[2]
        lines.append(line)
    return "\n".join(lines)


def commands(scripts: str) -> list[tuple[str, str]]:
    """Commands that start one of the scripts, with launchers before it, quoted in a line or shown as one."""
    quoted = in_documents(rf"`([^`\n]*(?:{scripts})[^`\n]*)`")
    shown = in_documents(rf"^ {{4}}(.*(?:{scripts}).*?)(?: +#.*)?$")
    return sorted({(file, command) for file, command in quoted + shown if re.search(rf" (?:{scripts})", command)})


@pytest.mark.parametrize("command", sorted({command for _, command in commands(r"recipes/\w+\.py")}))
def test_a_recipes_command_composes(command):
    launcher, recipe, rest = re.fullmatch(r"(.*?)recipes/(\w+)\.py(.*)", command).groups()
    assert (ROOT / "recipes" / f"{recipe}.py").exists()
    assert all((ROOT / word).exists() for word in launcher.split() if word.startswith("launch/"))
    # a capital letter stands for a number that a comment gives
    overrides = [re.sub("=[A-Z]$", "=0", word) for word in shlex.split(rest) if "=" in word]
    if recipe in SMALL:
        OmegaConf.merge(OmegaConf.structured(SMALL[recipe]), OmegaConf.from_dotlist(overrides))
        return
    if recipe == "environment":
        recipe, overrides = "eval", [o for o in overrides if o.split("=")[0] not in environment.OWN]
    if "-m" in shlex.split(rest):
        schema.register()
        assert swept_keys([f"recipe={recipe}", *overrides])[0]
        return
    needed = ["recipe.pairs=x"] if recipe == "dpo" and not any("recipe.pairs" in o for o in overrides) else []
    cfg = compose(*overrides, *needed, recipe=recipe)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)


def test_make_demo_runs_commands_that_compose(tmp_path):
    printed = subprocess.run(["make", "-n", "demo", f"DEMO={tmp_path}"], cwd=ROOT, capture_output=True, text=True)
    recipes = re.findall(r"^\S+python (recipes/.*)$", printed.stdout, re.MULTILINE)
    assert [command.split(".py")[0] for command in recipes] == [f"recipes/{n}" for n in ("eval", "eval", "sft", "grpo")]
    for command in recipes:
        test_a_recipes_command_composes(command)


@pytest.mark.parametrize(("document", "command"), commands(r"(?:tests/bench|launch)/\w+\.(?:py|sh)"))
def test_a_script_knows_the_options_that_a_command_gives_it(document, command):
    for script in re.findall(r"(?:tests/bench|launch)/\w+\.(?:py|sh)", command):
        text = (ROOT / script).read_text()
        options = re.findall(r" (--[a-z][\w-]*)", command.split(script, 1)[1])
        assert [option for option in options if f'"{option}"' not in text] == []


@pytest.mark.parametrize("command", sorted({command for _, command in commands(rf"tests/bench/(?:{DRY})\.py")}))
def test_a_benchmark_takes_the_arguments_that_a_command_gives_it(command):
    name, rest = re.search(rf"tests/bench/({DRY})\.py(.*)", command).groups()
    argv = shlex.split(rest)
    if "--summary" not in argv:  # which reads what is stored and runs nothing
        assert importlib.import_module(f"tests.bench.{name}").main([*argv, "--dry-run"]) == 0


@pytest.mark.parametrize(("document", "module"), in_documents(r"python -m ([\w.]+)"))
def test_a_module_that_a_command_runs_can_be_run(document, module):
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert not spec.submodule_search_locations or importlib.util.find_spec(f"{module}.__main__")


@pytest.mark.parametrize(("document", "target"), in_documents(r"(?:^ {4}|`)make ([a-z][\w-]*(?: [A-Z_]+=[^\s`]+)*)"))
def test_a_target_of_the_makefile_exists_and_takes_its_variables(document, target):
    name, *variables = target.split()
    subprocess.run(["make", "-n", name, *variables], cwd=ROOT, check=True, capture_output=True)
    makefile = (ROOT / "Makefile").read_text()
    assert [v for v in variables if not re.search(rf"\b{v.split('=')[0]}\b", makefile)] == []


def test_the_makefile_may_lie_in_a_folder_with_a_blank(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    made = [argument for name in (".venv/.installed-dev", ".venv-vllm/.installed") for argument in ("-o", name)]
    printed = subprocess.run(["make", "-n", *made, "test-vllm"], cwd=folder, capture_output=True, text=True).stdout
    assert f"CODEGRAIN_VLLM_PYTHON={folder}/.venv-vllm/bin/python" in shlex.split(printed)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    assert [link for link in of(document, r"\]\(((?!https?:)[^)\s]+)\)") if not leads_somewhere(link, document)] == []


def leads_somewhere(link: str, document: Path) -> bool:
    name, _, anchor = link.partition("#")
    file = document.parent / name if name else document
    if not anchor or not file.exists():
        return file.exists()
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_and_classes_that_are_named_exist(document):
    # of a pattern, as conf/tuned/<recipe>_<task>.yaml, the folder
    files = of(document, rf"(?<![\w./-])((?:{ROOMS})/[\w./-]*[\w/](?![\w*<{{]))")
    classes = of(document, r"[`:]((?:rewards|envs|recipes)(?:\.\w+)*\.[A-Z]\w+)")
    missing = [name for name in files if not (ROOT / name).exists()]
    missing += [name for name in classes if not is_class(name)]
    assert [name for name in missing if name not in FOR_THE_READER_TO_WRITE] == []


def of(document: Path, pattern: str) -> list[str]:
    return [text for name, text in in_documents(pattern) if ROOT / name == document]


def is_class(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    there = importlib.util.find_spec(module) is not None
    return there and isinstance(getattr(importlib.import_module(module), attribute, None), type)


STARTS = r"python|accelerate|make|sbatch|launch|\.venv/bin/python|PYTHONPATH|docker|uv|pip|git|apt"
SHOWN = rf"^ {{4}}((?:{STARTS})\b.*?)(?: {{2,}}#.*)?$"
KINDS = re.findall(
    r"^\| (`.*?`) \| ", (ROOT / "tests/README.md").read_text().split("## Commands of the documents")[1], re.MULTILINE
)


@pytest.mark.parametrize(("document", "command"), in_documents(SHOWN))
def test_a_shown_command_is_run_or_the_reason_is_given(document, command):
    """In the table of tests/README.md, which says what of it a test runs and why not all."""
    assert any(kind in command for row in KINDS for kind in re.findall("`([^`]+)`", row)), command


def quick() -> list[str]:
    """Those of README.md and recipes/README.md that train nothing and need no run or file of the reader's."""
    return [
        command
        for document, command in commands(r"recipes/(?:plan|check)\.py")
        if document in ("README.md", "recipes/README.md") and "mine.jsonl" not in command
    ]


@pytest.mark.parametrize("command", quick())
def test_a_command_that_ends_within_a_minute_runs(command, tmp_path):
    _, script, *overrides = shlex.split(command)
    done = warm.run([sys.executable, ROOT / script, *overrides], cwd=tmp_path, check=True)
    assert re.search(r"^fits: |problems are sound$", done.stdout, re.MULTILINE), done.stdout


def methods() -> list[list[str]]:
    section = (ROOT / "recipes/trainers/README.md").read_text().split("## Methods", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "`tests/" in line]


@pytest.mark.parametrize("row", methods(), ids=lambda row: row[0])
def test_a_method_is_where_the_table_says(row):
    file, name = re.fullmatch(r"`(\S+)` `(\w+)`", row[2]).groups()
    assert re.search(rf"^ *(?:def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE)
    assert "def test_" in (ROOT / row[3].strip("`")).read_text()


def test_readme_is_short():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= MOST_LINES and len(text.split()) <= MOST_WORDS


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_a_readme_that_is_linked(folder):
    assert (ROOT / folder / "README.md").is_file()
    assert f"]({folder}/README.md)" in (ROOT / "README.md").read_text()


def test_the_channel_of_the_readme_is_that_of_the_first_hour():
    shown = [re.search(r"```python\n(.*?)```", (ROOT / file).read_text(), re.DOTALL) for file in ("README.md", HOUR)]
    one, other = (textwrap.dedent(re.sub(r" +$", "", results.group(1))) for results in shown if results)
    assert one == other and len(one.splitlines()) < 25


NUMBER = r"[+-]?\d+(?:\.\d+)?"


def results() -> list[list[str]]:
    """The rows of README.md's table of results, as cells."""
    section = (ROOT / "README.md").read_text().split("## Results", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def intervals(text: str) -> list[tuple[str, str]]:
    return re.findall(rf"\[({NUMBER}), ({NUMBER})\]", text.replace("\\", "").replace("\N{MINUS SIGN}", "-"))


@pytest.mark.parametrize("row", results(), ids=lambda row: row[0])
def test_a_result_in_readme_stands_on_a_results_page(row):
    """Each interval, at the digits that README.md gives, and each number with a decimal point."""
    pages = "\n".join(file.read_text() for file in (ROOT / "tests" / "bench" / "results").glob("*.md"))
    measured = [tuple(map(float, pair)) for pair in intervals(pages)]
    assert intervals(row[1])
    for pair in intervals(row[1]):
        digits = len(pair[0].partition(".")[2])
        assert tuple(map(float, pair)) in {tuple(round(end, digits) for end in ends) for ends in measured}, pair
    known = set(re.findall(r"\d+\.\d+", pages))
    assert [number for number in re.findall(r"\d+\.\d+", row[1]) if number not in known] == []
    assert re.search(r"`[^`]+`, [0-9a-f]{7}", row[2]), "a command and a commit"


def test_readme_has_at_most_six_results():
    assert 0 < len(results()) <= 6
