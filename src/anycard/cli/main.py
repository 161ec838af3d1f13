"""The command line: reads the language and the session, then builds the one verb that was asked for.

Nothing heavy is imported before the verb needs it: ``anycard --help`` answers in under 0.15 s.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated, Any

import typer

from anycard import __version__, i18n
from anycard.cli import streams
from anycard.cli.help import Verb, VerbGroup
from anycard.cli.output import report
from anycard.cli.session import session
from anycard.errors import AnycardError, UsageError
from anycard.i18n import N_, _

# Each verb is one file of this name in cli/verbs.
VERBS = {
    "run": N_("Submit a job file or a command and follow it to its end"),
    "submit": N_("Submit a job file or a command and return at once"),
    "jobs": N_("List jobs, newest first"),
    "job": N_("Show one job: its items, why it waits or failed, where its files are"),
    "report": N_("Say what a job made of its cards, and what to change"),
    "logs": N_("Print what an item's program wrote"),
    "wait": N_("Wait until jobs are over"),
    "cancel": N_("Cancel jobs"),
    "retry": N_("Queue failed items again"),
    "hold": N_("Keep jobs from starting"),
    "release": N_("Let held jobs start"),
    "top": N_("Watch cards and the queue"),
    "cards": N_("List this machine's cards"),
    "readings": N_("Print cards' readings over time"),
    "specs": N_("Say what cards have and can do"),
    "doctor": N_("Say why a card does not work, and how to mend it"),
    "fit": N_("Say how much a model needs, whether it fits a card, and what would help"),
    "offers": N_("List cards that could be rented, with their price terms"),
    "quote": N_("Say what a job costs on an offer, line by line"),
    "advise": N_("Say where a job should run: here, rented or on the CPU"),
    "up": N_("Start the daemon"),
    "down": N_("Stop the daemon; what runs goes on"),
    "status": N_("Say whether the daemon runs, and how it is"),
    "hooks": N_("List the webhooks, and try them"),
    "capture": N_("Write a bundle that shows this machine's hardware, without private details"),
    "prune": N_("Remove logs and outputs of old jobs"),
    "backup": N_("Write a consistent copy of the store"),
}
_ABOUT = N_("One task, any card: queue jobs on this machine's accelerators and run each to its end.")
_WITH_VALUE = ("--home", "--lang")
_BARE = ("--no-start",)
_TYPER: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}
# Typer 0.20 and later carry Click inside, earlier ones beside them: its base error is found through what Typer shows.
_CLICK_ERROR: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_PIPE_CLOSED = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1
_INTERRUPTED = 128 + signal.SIGINT


class _Verbs(VerbGroup):
    """Loads a verb's module only when that verb is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def lines(self) -> list[tuple[str, str]]:
        return [(verb, _(line)) for verb, line in VERBS.items()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in VERBS else None


def _load(verb: str) -> Any:
    module = importlib.import_module(f"anycard.cli.verbs.{verb}")
    more = getattr(module, "MORE", None)
    line = _(VERBS[verb])
    app = typer.Typer(**_TYPER)
    app.command(verb, cls=Verb, help=f"{line}\n\n{_(more)}" if more else line)(getattr(module, verb))
    return typer.main.get_command(app)


def main() -> None:
    """Entry point: exits with the code of the contract (docs/cli.md)."""
    sys.excepthook = _crashed
    streams.prepare()
    sys.exit(_guarded(sys.argv[1:]))


def _guarded(argv: Sequence[str]) -> int:
    try:
        code = _reported(argv)
        sys.stdout.flush()
    except streams.UnwrittenError as unwritten:
        streams.forget()
        return _unwritten(unwritten.cause)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _reported(argv: Sequence[str]) -> int:
    try:
        return run(argv)
    except AnycardError as error:
        report(error, as_json=session.json)
        return error.exit_code


def _unwritten(error: OSError) -> int:
    if not isinstance(error, BrokenPipeError):
        said = _("the answer could not be written: {why}", why=error.strerror or str(error))
        sys.stderr.write(f"anycard: {said}\n")
    return _PIPE_CLOSED


def run(argv: Sequence[str]) -> int:
    """Runs one command line; the exit code. Raises ``anycard.errors`` and KeyboardInterrupt."""
    globals_, rest, command = _split(argv)
    i18n.use(i18n.choose(_value(globals_, "--lang")))
    session.home = _value(globals_, "--home")
    session.start = "--no-start" not in globals_
    session.json = "--json" in rest
    session.command = command
    app = typer.Typer(cls=_Verbs, help=_(_ABOUT), no_args_is_help=True, **_TYPER)
    app.callback()(_global_options)
    try:
        code = typer.main.get_command(app).main([*globals_, *rest], prog_name="anycard", standalone_mode=False)
    except typer.Abort as aborted:
        raise KeyboardInterrupt from aborted
    except _CLICK_ERROR as error:
        return _usage(error, rest)
    return code if isinstance(code, int) else 0


def _usage(error: Any, words: Sequence[str]) -> int:
    from anycard.cli.usage import usage_error

    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.format_message() + "\n")
        return UsageError.exit_code
    raise usage_error(error, tuple(VERBS), words) from error


def _global_options(
    home: Annotated[
        str | None, typer.Option("--home", metavar="FOLDER", help=_("Where anycard keeps its things"))
    ] = None,
    lang: Annotated[str | None, typer.Option("--lang", metavar="LANGUAGE", help=_("en or zh"))] = None,
    no_start: Annotated[
        bool, typer.Option("--no-start", help=_("Fail when no daemon runs instead of starting it"))
    ] = False,
    version: Annotated[
        bool,
        # eager: read before a missing verb is an error
        typer.Option("--version", is_eager=True, callback=_version, help=_("Print the version and exit")),
    ] = False,
) -> None:
    """Read before, by ``_split``; they stand here so that the help page lists them."""


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"anycard {__version__}\n")
        raise typer.Exit


def _split(argv: Sequence[str]) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Global options, wherever they stand before ``--``; the rest; the command after ``--``."""
    end = argv.index("--") if "--" in argv else len(argv)
    globals_: list[str] = []
    rest: list[str] = []
    words = iter(argv[:end])
    for word in words:
        if word in _WITH_VALUE:
            globals_ += [word, *([value] if (value := next(words, None)) is not None else [])]
        elif word in _BARE or word.startswith(tuple(f"{option}=" for option in _WITH_VALUE)):
            globals_.append(word)
        else:
            rest.append(word)
    return globals_, rest, tuple(argv[end + 1 :])


def _value(globals_: Sequence[str], option: str) -> str | None:
    """The last value given to a global option."""
    value = None
    for at, word in enumerate(globals_):
        if word == option and at + 1 < len(globals_):
            value = globals_[at + 1]
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    return value


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A fault of ours: Python's traceback, and the exit code that says so (Python's own would be 1, "an item failed")."""
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    os._exit(AnycardError.exit_code)


if __name__ == "__main__":
    main()
