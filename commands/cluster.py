"""``hearsay cluster``: daemons on many machines behind one address, by Ray Serve."""

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from commands.console import prose
from commands.serve import with_flags

HELP = prose("""
Run replicas of the daemon behind one address, by Ray Serve. Needs the extra cluster; SIGTERM or Ctrl-C ends it.

A session goes where most places are free. A replica that leaves drains as a daemon does. RAY_ADDRESS names a running
cluster of Ray; without it one starts on this machine. Models and voices lie on a path that all machines share.
""")
EPILOG = "Example: hearsay cluster --replicas 2 --max-replicas 8"


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    ours: dict[str, tuple[Any, Any]] = {
        "replicas": (Annotated[int, typer.Option("--replicas", help="Replicas, at least.")], 1),
        "max_replicas": (
            Annotated[
                int | None, typer.Option("--max-replicas", help="At most [default: as --replicas].", show_default=False)
            ],
            None,
        ),
        "cpus": (Annotated[float, typer.Option("--cpus", help="CPUs that a replica reserves.")], 1.0),
        "downscale_seconds": (
            Annotated[float, typer.Option("--downscale-seconds", help="Time for which too many replicas are kept.")],
            300.0,
        ),
    }
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in ours.items()
    ]
    app.command("cluster", help=HELP, epilog=EPILOG)(with_flags(_cluster, parameters))


def _cluster(
    config: Path | None, replicas: int, max_replicas: int | None, cpus: float, downscale_seconds: float, **flags: Any
) -> None:
    from daemon.cluster import Plan, deploy
    from daemon.config import load
    from daemon.loading import check_models

    settings = load(config, flags=flags)
    plan = Plan(
        least=replicas,
        most=replicas if max_replicas is None else max_replicas,
        cpus=cpus,
        downscale_seconds=downscale_seconds,
    )
    check_models(settings)
    deploy(settings, plan, lambda url: print(f"hearsay is ready on {url}", file=sys.stderr, flush=True))
