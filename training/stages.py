"""A recipe's commands: a stage is a function, and its parameters are its options.

Contract of a stage: it takes one dataclass, or parameters of the types below. A parameter before "/" is given by its
place, a tuple takes several values, a bool is --NAME or --no-NAME, and a parameter without a default is required.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from inspect import Parameter, signature
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

# Keys under which the parser keeps the stage and its parameters' owner. They have spaces, so that no parameter can be
# called so.
_STAGE, _KIND = "a stage", "its parameters"
Share = tuple[int, int]
"""(K, N), on the command line "K/N": this process is the Kth of N."""


def share(text: str) -> Share:
    """Read "K/N" as (K, N), for argparse."""
    number, _, count = text.partition("/")
    if not number.isdecimal() or not count.isdecimal() or not int(number) < int(count) <= 100:
        raise argparse.ArgumentTypeError(f"{text}, must be K/N with 0 <= K < N <= 100")
    return int(number), int(count)


def asked(
    program: str, about: str | None, stages: Mapping[str, Callable[..., None]], arguments: list[str] | None = None
) -> Callable[[], None]:
    """Give the call of the stage that the command line (or ``arguments``) asks for."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    commands = parser.add_subparsers(required=True, metavar="STAGE")
    for name, stage in stages.items():
        text = " ".join((stage.__doc__ or "").split())
        first_sentence = text.partition(". ")[0].removesuffix(".")
        command = commands.add_parser(name, help=first_sentence, description=text)
        first: Any = next(iter(get_type_hints(stage).values()))
        kind: Any = first if is_dataclass(first) else stage
        command.set_defaults(**{_STAGE: stage, _KIND: kind})
        for parameter in signature(kind).parameters.values():
            _add(command, parameter, get_type_hints(kind)[parameter.name])
    found: dict[str, Any] = vars(parser.parse_args(arguments))
    given: dict[str, Any] = {name: (*v,) if isinstance(v, list) else v for name, v in found.items()}
    stage, kind = given.pop(_STAGE), given.pop(_KIND)
    placed = [given.pop(p.name) for p in signature(kind).parameters.values() if p.kind is Parameter.POSITIONAL_ONLY]
    return partial(stage, *placed, **given) if kind is stage else partial(stage, kind(**given))


def _add(command: argparse.ArgumentParser, parameter: Parameter, hint: Any) -> None:
    required = parameter.default is Parameter.empty
    several = get_origin(hint) is tuple and hint != Share
    how: dict[str, Any] = {"nargs": "+" if required else "*"} if several else {}
    if hint is bool:
        how["action"] = argparse.BooleanOptionalAction
    else:
        [how["type"], *_] = [share] if hint == Share else [t for t in get_args(hint) if t is not NoneType] or [hint]
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        command.add_argument(parameter.name, **how)
    else:
        default = {} if required else {"default": parameter.default}
        command.add_argument(f"--{parameter.name.replace('_', '-')}", required=required, **default, **how)
