"""What Ray Serve asks while a cluster runs: which replica takes a request, and how many there are to be."""

import importlib
import math
from collections import Counter
from typing import Any, Final

SHARE: Final = 0.7
"""The share of all places that may be taken before another replica is started. The rest is for those who come while it
loads its models."""

_theirs: Any = importlib.import_module("ray.serve.request_router")


class ByHeadroom(_theirs.FIFOMixin, _theirs.RequestRouter):
    """A router that sends a request to the replica with the most free places: those that it reported last, less the
    requests that were sent there since."""

    def initialize_state(self, **kwargs: Any) -> None:
        """Called by Ray in place of a constructor."""
        del kwargs
        self._sent = Counter[Any]()
        self._told = dict[Any, dict[str, Any]]()

    async def choose_replicas(self, candidate_replicas: list[Any], pending_request: Any = None) -> list[list[Any]]:
        """Rank the replicas, each in a group of its own, the one with the most free places first. If one is full, Ray
        asks the next."""
        del pending_request
        return [[replica] for replica in sorted(candidate_replicas, key=self._free, reverse=True)]

    def on_request_routed(self, pending_request: Any, replica_id: Any, result: Any) -> None:
        """Count the request."""
        del pending_request, result
        self._sent[replica_id] += 1

    def _free(self, replica: Any) -> float:
        told: dict[str, Any] = replica.routing_stats
        name = replica.replica_id
        if self._told.get(name) is not told:
            self._told[name], self._sent[name] = told, 0
        # A new replica has reported nothing yet, and has places.
        return float(told.get("headroom", 1)) - self._sent[name]


def wanted(context: Any) -> tuple[int, dict[str, Any]]:
    """The number of replicas that hold the present sessions with a share of the places to spare.

    Args:
        context: Ray's, with what :meth:`daemon.cluster.Replica.record_autoscaling_stats` told.
    """
    metrics: dict[str, dict[Any, float]] = context.aggregated_metrics or {}
    live, free = sum(metrics.get("live", {}).values()), sum(metrics.get("headroom", {}).values())
    told = len(metrics.get("live", {}))
    count = context.target_num_replicas
    if told and live + free > 0:
        count = math.ceil(live / (SHARE * (live + free) / told))
    return max(context.capacity_adjusted_min_replicas, min(count, context.capacity_adjusted_max_replicas)), {}
