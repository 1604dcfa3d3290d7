"""What a prompt shows within its limits, in which order, and the code found in what comes back."""

from __future__ import annotations

import re

import pytest

from envs.etk.answer import extracted
from envs.etk.context import Room, block, cut, fenced, joined, useful_first
from envs.etk.prompts import MORE, Prompt
from envs.etk.rows import SourceFile
from envs.local_models import CountTokens
from envs.task import TaskError

FILES = (
    ("long.c", "int long_line_of_code;\n" * 200),
    ("make.code.defn", "SRCS = long.c short.c\n"),
    ("short.c", "int s;\n"),
    ("sub/types.hh", "struct T;\n" * 3),
)


def words(text: str) -> int:
    """Stands for a tokenizer: words and marks."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def file(name: str = "a.c", files=FILES, **changes) -> SourceFile:
    values = {"interface": "i" * 1000, "schedule": "s" * 1001, "param": "", "configuration": "REQUIRES X\n"} | changes
    return SourceFile("Base/Boundary", name, "int a;\n", files=files, context=joined(files), **values)


def blocks_close(text: str) -> bool:
    """Whether every fence of a text is closed by one as long."""
    fence = None
    for line in text.splitlines():
        results = re.match(r"(`{3,})(\w*)$", line)
        if results and fence is None:
            fence = results[1]
        elif results and results[1] == fence and not results[2]:
            fence = None
    return fence is None


def test_declarations_are_cut_where_they_are_too_long_and_say_so():
    question = Prompt().question(file())
    assert f"Interface (interface.ccl):\n```\n{'i' * 1000}\n```" in question
    assert f"Schedule (schedule.ccl):\n```\n{'s' * 1000}{MORE}\n```" in question
    assert "Param (param.ccl):\n```\n```" in question and "REQUIRES X\n```" in question
    assert question.count(MORE) == 1
    assert f"\n{'i' * 100}{MORE}\n" in Prompt(ccl_limit=100).question(file())


def test_the_literal_style_is_one_text_with_marks_and_the_works_cut():
    prompt = Prompt(style="literal", context_limit=1000, ccl_limit=100)
    text = prompt.messages(file(), prompt.question(file()))
    assert re.findall(r"^<\|.*\|>$", text, re.MULTILINE) == ["<|system|>", "<|user|>", "<|assistant|>"]
    assert text.endswith("<|assistant|>\nHere is the code for a.c:\n```\n")
    assert "expert C/C++ developer" in text and "Create the C/C++ file `a.c` in the thorn `Base/Boundary`" in text
    assert f"Related code context:\n```\n{joined(FILES)[:1000]}\n```\n\n" in text
    marks = [text.index(mark) for mark in ("Thorn information", "Interface", "Schedule", "Param", "Configuration")]
    assert marks == sorted(marks) and marks[-1] < text.index("Related code context")
    assert "- Name: Base/Boundary\n- Target file: a.c\n" in text


def test_the_works_limits_and_order_are_the_defaults():
    files = (*FILES, ("z.c", "int z;\n" * 3000))
    question = Prompt().question(file(files=files))
    assert f"Related code context:\n```\n{joined(files)[:10_000]}\n```\n\n" in question
    assert question.startswith("Create the C/C++ file")


def test_the_chat_style_opens_the_answer_in_the_files_own_language():
    prompt = Prompt(own_language=True)
    spoken = {"a.c": ("C", "c"), "a.F77": ("fixed-form Fortran with preprocessor directives", "fortran")}
    spoken |= {"sub/make.code.defn": ("make fragment", "make"), "b.hxx": ("C++ header", "cpp"), "b.pl": ("source", "")}
    for name, (language, tag) in spoken.items():
        system, user, assistant = prompt.messages(file(name), prompt.question(file(name)))
        assert [m["role"] for m in (system, user, assistant)] == ["system", "user", "assistant"]
        assert user["content"].startswith(f"Create the {language} file `{name}` in the thorn `Base/Boundary`.")
        assert assistant["content"] == f"Here is the code for {name}:\n```{tag}\n"


def test_what_is_cut_off_matters_least():
    assert [name for name, _ in useful_first(FILES)] == ["make.code.defn", "sub/types.hh", "short.c", "long.c"]
    question = Prompt(context_limit=1000, context_order="useful").question(file())
    context = question[question.index("Related code context") : question.index("Write the complete")]
    for name, text in FILES[1:]:
        assert block(name, text).strip() in context
    shown = context.count("int long_line_of_code;\n")
    assert 20 < shown < 200 and context.count("long_line_of_code") == shown  # whole lines alone
    assert blocks_close(question)
    assert "(none)" in Prompt(context_order="useful").question(file(files=()))


@pytest.mark.parametrize("count", [len, words])
@pytest.mark.parametrize("limit", [0, 1, 7, 20, 60, 150, 400, 2000, 10_000])
def test_the_context_stays_within_its_limit_and_closed(count, limit):
    strange = (*FILES, ("fences.c", "/*\n```\n````\n*/\n" * 9), ("one_line.c", "x + " * 3000), ("end.c", "no newline"))
    shown = Room(limit, count).fitted(strange)
    assert count(shown) <= limit and blocks_close(shown)
    if count is len and limit == 2000:
        assert count(shown) > limit / 2
    assert Room(100_000, count).fitted(strange) == "".join(block(*each) for each in strange)


def test_one_long_file_does_not_push_the_others_out():
    files = [(f"{n}.c", f"int x{n};\n" * 100) for n in range(3)]
    shown = Room(600).fitted(files)
    assert all(f"int x{n};" in shown for n in range(3))
    assert len(Room(600).fitted(files[:1])) > 560


@pytest.mark.parametrize("limit", [0, 1, 2, 10, 333, 5000])
def test_a_cut_by_tokens_is_nearly_the_longest(limit):
    text = "int some_name = other(name);\n\n  // and a comment\n" * 100
    kept = cut(text, limit, words)
    assert text.startswith(kept) and words(kept) <= limit
    assert words(kept) >= min(words(text), 0.97 * limit - 1)
    assert cut(text, limit) == text[:limit]


def test_limits_may_be_in_tokens():
    seen = []

    def count(text: str) -> int:
        seen.append(len(text))
        return words(text)

    long = file(interface="a b " * 5000)
    prompt = Prompt(count_tokens=count, context_limit=200, ccl_limit=50, context_order="useful")
    shown = re.search(r"interface.ccl\):\n```\n(.*?)" + re.escape(MORE), prompt.question(long), re.DOTALL)[1]
    assert 48 <= words(shown) <= 50
    calls = len(seen)
    prompt.question(long)
    assert len(seen) - calls < calls / 2  # what was counted is known
    row = Prompt(count_tokens=words, context_limit=200).question(long)
    context = row[row.index("context:\n```\n") + 13 : row.index("\n```\n\nWrite the")]
    assert joined(FILES).startswith(context) and 195 <= words(context) <= 200


def test_limits_are_kept_in_tokens_of_a_real_tokenizer(smollm2_folder):
    count = CountTokens(str(smollm2_folder))
    prompt = Prompt(count_tokens=count, context_limit=300, ccl_limit=40, context_order="useful", own_language=True)
    long = file(interface="CCTK_REAL gxx TYPE=gf\n" * 200)
    question = prompt.question(long)
    context = question[question.index("code context:\n") + 14 : question.index("\n\nWrite the")]
    assert 200 < count(context) <= 300 and blocks_close(question) and "sub/types.hh:\n```cpp" in context
    shown = re.search(r"interface.ccl\):\n```\n(.*?)" + re.escape(MORE), question, re.DOTALL)[1]
    assert 36 <= count(shown) <= 40
    with pytest.raises(TaskError, match="no tokenizer of /nowhere"):
        CountTokens("/nowhere")


def test_a_fence_outlasts_those_in_its_text():
    assert fenced("a\n```c\nb\n```\n") == "````\na\n```c\nb\n```\n````"
    assert fenced("no newline", "c") == "```c\nno newline\n```" and fenced("") == "```\n```"


@pytest.mark.parametrize("wrong", [{"style": "plain"}, {"context_order": "best"}, {"ccl_limit": -1}])
def test_a_wrong_setting_is_named(wrong):
    with pytest.raises(TaskError, match=f"task.env.{next(iter(wrong))}="):
        Prompt(**wrong)


@pytest.mark.parametrize(
    ("answer", "code", "closed"),
    [
        ("int a;\n```\nThat is all.\n```c\nint b;\n```", "int a;\n", True),
        ("int a;\n", "int a;\n", False),
        ("```c\nint a;\n```\n", "int a;\n", True),  # rule 1
        ("```\nint a;\n", "int a;\n", False),
        ("int a;\n  ```cpp\nint b;\n", "int a;\n", True),
        ('s = "```";\nint a; // ``` no fence\n```\n', 's = "```";\nint a; // ``` no fence\n', True),
        ("c\nint a;\n```", "int a;\n", True),  # rule 2
        ("```\ncpp\nint a;\n```", "int a;\n", True),
        ("CXX\nint a;\n```", "int a;\n", True),
        ("Cpp\nint a;\n```", "int a;\n", True),
        ("C++\r\nint a;\r\n```", "int a;\r\n", True),
        ("Fortran\n      END\n```", "      END\n", True),
        ("}\nint a;\n```", "}\nint a;\n", True),
        ("x;\ny;\n```", "x;\ny;\n", True),
        ("C\n      END\n```", "C\n      END\n", True),
        ("c = 1;\n```", "c = 1;\n", True),
        ("END\n```", "END\n", True),
        ("      PROGRAM A\n      END\n```", "      PROGRAM A\n      END\n", True),  # rule 3
        ("\n\n  int a;\n```", "\n\n  int a;\n", True),
        ("a\fb\u2028```\n```", "a\fb\u2028```\n", True),  # line ends of C alone
        ("", "", False),
        ("```", "", False),
        ("```c\n```", "", True),
        ("cpp", "", False),
    ],
)
def test_the_code_of_an_answer(answer, code, closed):
    results = extracted(answer)
    assert (answer[results.start : results.end], results.closed) == (code, closed)


def test_a_template_of_the_users_own_is_the_whole_message(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("Write $file of ${thorn} in $language for $$5.\n$interface\n$context\n")
    made = Prompt(template=str(own), ccl_limit=100, context_limit=50)
    source = file()
    question = made.question(source)
    assert question.startswith(f"Write a.c of {source.thorn} in C/C++ for $5.\n{'i' * 100}{MORE}\n```\n")
    system, user, assistant = made.messages(source, question)
    assert user["content"] == question and system["role"] == "system" and assistant["content"].endswith("```\n")
    literal = Prompt(style="literal", template=str(own), ccl_limit=100, context_limit=50)
    assert literal.messages(source, literal.question(source)) == question


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Write $name", "$name is no placeholder; there are $file,"),
        ("for 5 $ or", "write $$ for"),
        (None, "cannot be read"),
    ],
)
def test_a_template_that_cannot_be_followed_is_one_line(text, says, tmp_path):
    own = tmp_path / "own.txt"
    if text is not None:
        own.write_text(text)
    with pytest.raises(TaskError, match=re.escape(says)) as error:
        Prompt(template=str(own))
    assert f"task.env.template={own}" in str(error.value) and "\n" not in str(error.value)
