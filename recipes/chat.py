"""Ask a trained model in a terminal; its answers are streamed.

    python recipes/chat.py run=runs/demo/grpo
    python recipes/chat.py run=... --run                                    run the answers' programs in the sandbox
    python recipes/chat.py run=... ask="Write a function double(n)."        one answer, then exit
    python recipes/chat.py run=... task=humaneval problem=HumanEval/0       a task's problem: tests and token rewards
    python recipes/chat.py model=smollm2_135m                               a model that is not trained yet

`model` is a name of conf/model/, a folder or a name on the hub; `adapter` may go with it. Answers go to standard output
and everything else to standard error. Without a terminal the whole of standard input is one question. Ctrl-C stops an
answer; /new forgets the conversation, and Ctrl-D or /quit leaves.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parents[1]))

from omegaconf import OmegaConf
from rich.console import Console

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.console import for_terminal, log
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from recipes.cli.schema import CONF, register

RUN = "--run"
LONGEST = 512
"""Tokens of an answer to a question of the user's; to a problem, as many as its task allows."""


@dataclass
class ChatConfig:
    run: str | None = None
    """A run directory."""
    step: int | None = None
    """A checkpoint's step of that run; null: final/, or the newest checkpoint of a run that is not finished."""
    model: str | None = None
    """Without a run: a name of conf/model/, a folder, or a name on the hub."""
    adapter: str | None = None
    """A run directory, adapter or checkpoint on top of `model`."""
    hardware: str | None = None
    """The profile of conf/hardware/ for a model without a run; null: cpu. A run has its own."""
    ask: str | None = None
    """One question; null: from the terminal or standard input."""
    task: str | None = None
    """The task of `problem`; null: the run's own."""
    problem: str | None = None
    """The id of a problem of the task, which is asked and graded."""
    system: str | None = None
    """The system message; null: that of the run's task, "" for none."""
    temperature: float = 0.0
    """0: greedy."""
    top_p: float = 1.0
    max_new_tokens: int | None = None
    """Longest answer, in tokens; null: 512, for a problem what its task allows."""
    seed: int = 0
    load_in_4bit: bool | None = None
    """null: as the run was trained."""
    execute: bool = False
    """What --run sets: the sandbox runs the program of each answer."""


TEXTS = ("ask", "system", "problem")
"""Keys whose values are taken letter by letter; of other keys they are YAML."""


def read(arguments: Sequence[str]) -> Any:
    """Arguments KEY=VALUE and the flag --run as a ChatConfig."""
    given = [(argument, argument.partition("=")) for argument in arguments if argument != RUN]
    keys = [argument for argument, (key, _, _) in given if key not in TEXTS or "=" not in argument]
    cfg: Any = OmegaConf.to_object(keys_of(ChatConfig)(keys))
    for argument, (key, _, value) in given:
        if key in TEXTS and "=" in argument:
            setattr(cfg, key, readable(value))
    cfg.execute = cfg.execute or RUN in arguments
    return cfg


def chat(cfg: ChatConfig) -> int:
    """Answer what `cfg` asks. Raises UserError before a model loads where that cannot work."""
    out = sys.stdout
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    with contextlib.redirect_stdout(sys.stderr):  # messages, also those of libraries, leave standard output to answers
        check_keys(cfg)
        given = configured(cfg)
        if cfg.problem is not None:
            return ask_problem(cfg, given, out)
        question = cfg.ask
        if question is None and not sys.stdin.isatty():
            question = readable(sys.stdin.read())
        if question is not None and not question.strip():
            source = "ask=" if cfg.ask is not None else "standard input"
            raise UserError(f"{source} is empty: give a question, such as ask='Write a function double(n).'")
        talk = Talk(cfg, given, out)
        if question is None:
            return talk.with_terminal()
        talk.check(question)
        talk.load()
        return 130 if talk.say(question).stopped else 0


def readable(text: str) -> str:
    """The text with a question mark for each byte that is no character."""
    return text.encode("utf-8", "replace").decode()


def check_keys(cfg: ChatConfig) -> None:
    """Raise UserError for keys that do not go together or values that cannot be."""
    if cfg.run is None and cfg.model is None and cfg.adapter is None:
        raise UserError("nothing to ask: give run=RUN, or model=NAME, with adapter=FOLDER where there is one")
    if cfg.run is not None and (cfg.model is not None or cfg.adapter is not None):
        raise UserError("run=RUN names its model itself: leave out model= and adapter=, or run=")
    if cfg.run is not None and cfg.hardware is not None:
        raise UserError(f"hardware={cfg.hardware}: run=RUN has a profile of its own; leave it out")
    if cfg.step is not None and cfg.run is None:
        raise UserError(f"step={cfg.step} is a checkpoint of a run: give run=RUN")
    if cfg.problem is not None and cfg.ask is not None:
        raise UserError("problem= asks the problem's own question: leave out ask=")
    if cfg.task is not None and cfg.problem is None:
        raise UserError(f"task={cfg.task} is for one of its problems: give problem=ID too")
    if cfg.problem is not None and cfg.task is None and cfg.run is None:
        raise UserError(f"problem={cfg.problem}: give its task= too")
    if cfg.temperature < 0 or not 0 < cfg.top_p <= 1 or (cfg.max_new_tokens or 1) < 1:
        raise UserError("temperature is 0 or more, top_p above 0 and at most 1, max_new_tokens 1 or more")


def configured(cfg: ChatConfig) -> Any:
    """The configuration to load with: the run's own, or one composed from `model` and `task`, for this machine."""
    from recipes.run.trained import on_this_machine, trained

    register()
    if cfg.run is not None:
        run = trained(cfg.run, cfg.step)
        given, notes = run.cfg, run.notes
    else:
        given, notes = compose(model_overrides(cfg)), ()
        given.adapter = cfg.adapter
    if cfg.run is not None and cfg.task not in (None, given.task.name):
        other = compose(["recipe=eval", f"task={cfg.task}"])
        given.task, given.reward = other.task, other.reward
    note = on_this_machine(given, cfg.load_in_4bit)
    for line in filter(None, (*notes, note)):
        log.info(line)
    return given


def model_overrides(cfg: ChatConfig) -> list[str]:
    """Overrides for a model without a run; an adapter alone says what its base is."""
    from recipes.models.adapter_base import base_named_by
    from recipes.models.load import adapter_folder, carries_adapter

    model = cfg.model
    if model is None and cfg.adapter is not None:
        model = base_named_by(adapter_folder(cfg.adapter)) if carries_adapter(cfg.adapter) else cfg.adapter
        if not model:
            raise UserError(f"adapter={cfg.adapter} does not say what it was trained on: give model= too")
    known = (Path(CONF) / "model" / f"{model}.yaml").exists()
    named = [f"model.path='{model}'", f"model.name='{Path(str(model)).name}'", "model.architecture={}"]
    chosen = [f"model={model}"] if known else named
    return ["recipe=eval", f"hardware={cfg.hardware or 'cpu'}", *chosen, *([f"task={cfg.task}"] if cfg.task else [])]


class Talk:
    """A conversation with one policy. Its tokenizer is there at once; `load` brings the weights."""

    def __init__(self, cfg: ChatConfig, given: Any, out: TextIO, longest: int = LONGEST):
        from recipes.models.load import load_tokenizer

        self.cfg, self.given, self.out = cfg, given, out
        self.tokenizer, self.context = load_tokenizer(given.model, given.adapter)
        self.longest = cfg.max_new_tokens or min(longest, (self.context or longest) // 2)
        self.messages: list[dict[str, str]] = []
        self.sandbox: Any = None
        self.forget()
        if cfg.execute:
            from recipes.run.build import build_sandbox

            self.sandbox = build_sandbox(given)

    def forget(self) -> None:
        """Begin a new conversation."""
        own = self.given.task.env.get("system") if self.cfg.run is not None else None
        system = self.cfg.system if self.cfg.system is not None else own
        self.messages = [{"role": "system", "content": system}] if system else []

    def load(self) -> None:
        """Load the weights, merged as evaluations sample from them."""
        from recipes.evaluation.held_out import policy_to_sample
        from recipes.models.load import load_policy, sampling_dtype
        from recipes.sampling.generate import Decoding
        from recipes.tools.conversation.answering import Answering

        policy, _ = load_policy(self.given.model, self.given.hardware, self.given.adapter)
        policy = policy_to_sample(policy.to(self.given.hardware.device), sampling_dtype(self.given.hardware))
        decoding = Decoding(self.longest, self.cfg.temperature, self.cfg.top_p)
        self.answering = Answering(policy, self.tokenizer, decoding, self.cfg.seed)

    def prompt(self, question: str) -> list[int]:
        """Token ids of the conversation with a further question."""
        from recipes.data.chat_tokens import encoded

        return encoded([*self.messages, {"role": "user", "content": question}], self.tokenizer)

    def check(self, question: str) -> None:
        """Raise UserError for a question that does not fit into the model's context, or has words that it lacks."""
        from recipes.tools.conversation.answering import check_length

        fresh = len(self.messages) < 2
        remedy = "ask a shorter one, or set max_new_tokens" if fresh else "/new forgets the conversation"
        try:
            ids = self.prompt(question)
        except Exception as error:  # tokenizers has no class of its own for it
            if self.given.model.path != "scratch":
                raise
            task = self.given.task.name
            raise UserError(
                f"the question {question[:40]!r} has what the vocabulary of this model lacks, which knows the prompts "
                f"of task={task} alone: give problem=ID, one of that task"
            ) from error
        check_length(len(ids), self.context, self.longest, remedy)

    def say(self, question: str) -> Any:
        """Ask and write the answer as it comes; run its program where the user asked for that."""
        answer = self.answering.answer(self.prompt(question), self.write, self.complete())
        self.write("\n")
        if answer.stopped:
            print("(stopped)", file=sys.stderr)
        self.messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer.text}]
        self.show_program(answer)
        return answer

    def show_program(self, answer: Any) -> None:
        """What the answer's program prints, where the user asked for it."""
        from recipes.tools.conversation.grading import printed

        if self.sandbox is not None and not answer.stopped:
            Console(stderr=True).print(printed(self.sandbox, answer.text))

    def write(self, piece: str) -> None:
        piece = for_terminal(piece) if self.out.isatty() else piece
        encoding = self.out.encoding or "utf-8"
        self.out.write(piece.encode(encoding, "replace").decode(encoding))
        self.out.flush()

    def complete(self) -> Callable[[list[int]], bool] | None:
        """Where a run's answers end: with their code block, if its task is one that reads no further."""
        from hydra.utils import get_class

        from envs.task import CodeBlockTask, extract_fenced

        if self.cfg.run is None or not issubclass(get_class(self.given.task.env._target_), CodeBlockTask):
            return None

        def closed(ids: list[int]) -> bool:
            results = extract_fenced(self.tokenizer.decode(ids, skip_special_tokens=True))
            return results is not None and results.closed

        return closed

    def with_terminal(self) -> int:
        """Questions from the terminal until it ends."""
        import readline  # noqa: F401  (input() has line editing and history with it, where it writes to a terminal)

        self.load()
        print(f"{self.given.model.name}: Ctrl-C stops an answer, /new starts again, Ctrl-D leaves.", file=sys.stderr)
        while True:
            try:
                with contextlib.redirect_stdout(self.out):
                    question = readable(input("> ")).strip()
            except EOFError:
                print(file=sys.stderr)
                return 0
            except KeyboardInterrupt:
                print("\n(Ctrl-D leaves)", file=sys.stderr)
                continue
            if question == "/quit":
                return 0
            if question == "/new":
                self.forget()
            elif not question:
                print("(empty: type a question, or Ctrl-D to leave)", file=sys.stderr)
            else:
                self.take(question)

    def take(self, question: str) -> None:
        """One question of a conversation; what is wrong with it is a line, and the conversation goes on."""
        try:
            self.check(question)
            self.say(question)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:  # while its program ran or was graded
            print("\n(stopped)", file=sys.stderr)


def ask_problem(cfg: ChatConfig, given: Any, out: TextIO) -> int:
    """Ask a problem of a task: its tests, the answer, the verdict, the token rewards."""
    from recipes.data.chat_tokens import prompt_ids
    from recipes.data.completions import AnswerComplete
    from recipes.run.build import build_reward, build_sandbox, build_task, ready
    from recipes.sampling.generate import end_ids
    from recipes.tools.conversation.answering import check_length
    from recipes.tools.conversation.grading import cases_of, graded, problem_of
    from rewards.attribution import TokenBytes

    task = build_task(given, "train", "test")
    problem = problem_of(task, str(cfg.problem))
    talk = Talk(cfg, given, out, given.task.max_new_tokens)
    prompt = prompt_ids(task, problem, talk.tokenizer)
    check_length(len(prompt), talk.context, talk.longest, "lower max_new_tokens")
    reward = build_reward(given, talk.sandbox or build_sandbox(given))
    ready(reward, task, "test")
    console = Console(stderr=True)
    console.print(f"{problem.id}\n\n{problem.question}\n\ntests:", markup=False, highlight=False)
    console.print(*(f"  {line}" for line in cases_of(problem)), sep="\n", markup=False)
    console.print()
    talk.load()
    answer = talk.answering.answer(prompt, talk.write, AnswerComplete(task, TokenBytes(talk.tokenizer)))
    talk.write("\n")
    if answer.stopped:
        return 130
    talk.show_program(answer)
    ends = end_ids(talk.tokenizer, talk.answering.policy)
    console.print(graded(task, problem, reward, talk.tokenizer, answer.ids, ends))
    return 0


main = small_command(read, __doc__, chat)

if __name__ == "__main__":
    sys.exit(main())
