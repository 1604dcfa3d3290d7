"""A job with a folder of the host: it changes a layer of its own, sees nothing that is hidden, and leaves no trace."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from envs.sandbox import FunctionCase, Job, LocalSandbox, Tree, run_sync

BUILD = """
cat tree/made/old; echo new > tree/made/old; cat tree/made/old "$0/made/old"; echo more > tree/fresh/more
cat tree/answer 2>/dev/null || echo hidden; cat tree/repos/.git/head 2>/dev/null || echo hidden
cat tree/linked; ls /trees /layer 2>/dev/null; echo x > tree/top 2>/dev/null; exit 0
"""
SEEN = "old\nnew\nnew\nhidden\nhidden\ntop\n"
GRADE = """
import asyncio, json, sys
from envs.sandbox import Job, LocalSandbox, Tree, run_sync
path, command = sys.argv[1:]
box = LocalSandbox(1, tier="full")
try:
    asyncio.run(box.layers())
except RuntimeError as error:
    print(json.dumps(str(error)))
    sys.exit()
tree = Tree(path, ("made", "fresh"), ("answer", "repos/.git"))
jobs = [Job("j", "command", tree=tree, commands=(("/bin/sh", "-c", command, path),))] * 2
outcomes = run_sync(box, jobs)
asyncio.run(box.close())
print(json.dumps([[o.verdict, o.note, o.stdout] for o in outcomes]))
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "Cactus"
    for name in ("made/old", "answer", "top", "repos/.git/head"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"{Path(name).name}\n")
    (made / "linked").symlink_to("top")
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    return made


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def full():
    box = LocalSandbox(1, tier="full")
    try:
        asyncio.run(box.layers())
    except RuntimeError as error:
        pytest.skip(f"no namespaces: {error}")
    yield box
    asyncio.run(box.close())


def job(folder: Path, command: str = BUILD, **changes) -> Job:
    tree = changes.pop("tree", Tree(str(folder), ("made", "fresh"), ("answer", "repos/.git")))
    return Job("j", "command", tree=tree, commands=(("/bin/sh", "-c", command, str(folder)),), **changes)


def test_a_job_changes_its_own_layer_only(full, folder):
    before = contents(folder)
    first, second = run_sync(full, [job(folder)] * 2)  # the second finds what the first found
    assert [(o.verdict, o.stdout) for o in (first, second)] == [("pass", SEEN)] * 2
    assert contents(folder) == before
    kept = job(folder, "cat tree/answer", files={"tree/made/answer": b"given"}, keep=("tree/made/*", "tree/top"))
    [outcome] = run_sync(full, [kept])
    files = {"tree/made/answer": b"given", "tree/made/old": b"old\n", "tree/top": b"top\n"}
    assert outcome.verdict == "fail" and outcome.files == files


def test_other_programs_of_the_same_worker_do_not_see_it(full, folder):
    look = f"""
import os
def f():
    for path in ({str(folder)!r}, "/trees/0", "/writable/tree", "/layer/upper"):
        try:
            if os.listdir(path): return path
        except OSError: pass
"""
    function = Job("f", "function", look, "f", (FunctionCase((), None),))
    outcomes = run_sync(full, [job(folder), function, job(folder), function])
    assert [o.verdict for o in outcomes] == ["pass"] * 4, outcomes


def test_what_cannot_be_given_is_not_graded(full, folder, tmp_path):
    outside = [
        job(folder, tree=Tree(str(folder), ("../other",))),
        job(folder, tree=Tree(str(folder), (), ("/etc/passwd",))),
        job(folder, tree=Tree(str(tmp_path / "nothing"))),
    ]
    outcomes = run_sync(full, [*outside, job(folder)])
    assert [o.verdict for o in outcomes] == ["error"] * 3 + ["pass"]
    assert "leads out" in outcomes[0].note and "no folder" in outcomes[2].note


def test_without_namespaces_it_is_not_graded_and_says_why(folder):
    box = LocalSandbox(1, tier="landlock")
    [outcome] = run_sync(box, [job(folder)])
    asyncio.run(box.close())
    assert outcome.verdict == "error" and outcome.note == (
        "a job with a folder needs namespaces: the sandbox's tier is landlock, not full"
    )


def test_as_an_ordinary_user(folder, as_ordinary_user):
    before = contents(folder)
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
    told = json.loads(as_ordinary_user(GRADE, str(folder), BUILD))
    if isinstance(told, str):
        pytest.skip(f"no namespaces: {told}")
    assert [(verdict, output) for verdict, _, output in told] == [("pass", SEEN)] * 2, told
    assert contents(folder) == before
