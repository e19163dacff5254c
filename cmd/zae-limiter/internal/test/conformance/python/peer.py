"""The Python peer, driven by JSON lines: a request on each line of standard
input, its answer on a line of standard output.

A request is {"op": name, ...arguments}; an answer is {"result": ...}, or
{"error": exception class, "message": text}. Limits are objects with the
arguments of zae_limiter.Limit; "reset" and "schedule" are lists of cron
expressions, the former in the zone "tz", the latter with a scale. An error of a
refusal has its body as "details".
"""

import dataclasses
import datetime
import json
import os
import sys
import threading
import time
import warnings

from click.testing import CliRunner
import zae_limiter as zae
from zae_limiter.cli import cli
from zae_limiter.schedule import ScheduleEntry
from zae_limiter.sync_limiter import SyncRateLimiter
from zae_limiter.sync_repository import SyncRepository

warnings.simplefilter("ignore")


class Clock:
    """The peer's clock: the machine's, set ahead by whole seconds.

    It stands for the module time where the peer reads that for limits.
    """

    ahead = 0

    def time(self):
        return time.time() + self.ahead


clock = Clock()
SyncRepository._now_ms = lambda self: int(clock.time() * 1000)
zae.exceptions.time = clock


class GivenUp(Exception):
    """Leaves an acquire so that its lease is rolled back."""


def limit(spec):
    """The Limit that a JSON object describes."""
    spec = dict(spec)
    if "reset" in spec:
        zone = spec.pop("tz", "UTC")
        spec["reset_schedule"] = tuple(ScheduleEntry.reset(cron=c, tz=zone) for c in spec.pop("reset"))
    if "reset_after" in spec:
        spec["reset_after"] = datetime.timedelta(seconds=spec["reset_after"])
    if "schedule" in spec:
        spec["schedule"] = tuple(ScheduleEntry(**entry) for entry in spec["schedule"])
    return zae.Limit(**spec)


def arguments(request):
    """The keyword arguments of a request, its limits made."""
    kwargs = {k: v for k, v in request.items() if k not in ("op", "method")}
    if kwargs.get("limits") is not None:
        kwargs["limits"] = [limit(spec) for spec in kwargs["limits"]]
    return kwargs


class Peer:
    """One client of one namespace, and the leases it holds."""

    def __init__(self):
        self.repository = None
        self.limiter = None
        self.leases = {}

    def create_table(self, table, region, endpoint):
        SyncRepository(name=table, region=region, endpoint_url=endpoint).create_table()

    def open(self, table, region, endpoint, namespace):
        """Opens a namespace; what is remembered of another is dropped."""
        self.repository = SyncRepository.open(
            namespace=namespace, stack=table, region=region, endpoint_url=endpoint,
            config_cache_ttl=0, rejection_cache_ttl=0, auto_update=False,
        )
        self.limiter = SyncRateLimiter(repository=self.repository)
        clock.ahead = 0

    def set_clock(self, ahead):
        """Sets the clock ahead of the machine's."""
        clock.ahead = ahead

    def differs(self, getter, limits, where):
        """How the limits that a getter returns differ from those given; "" if they do not."""
        def named(some):
            return {one.name: one for one in some}
        got, want = named(getattr(self.repository, getter)(**where)), named(limits)
        return "" if got == want else f"{got}, want {want}"

    def connect(self, table, region, endpoint, namespace):
        """Opens as a client does that may not repair a thing: strictly."""
        self.repository = SyncRepository.connect(namespace, stack=table, region=region, endpoint_url=endpoint)

    def provision(self, region, endpoint, event):
        """What the peer's function for limits in files answers to an event."""
        os.environ["AWS_DEFAULT_REGION"], os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = region, endpoint
        from zae_limiter_provisioner.handler import on_event
        return on_event(event, None)

    def command(self, arguments):
        """What a command of the package prints, which must succeed."""
        result = CliRunner().invoke(cli, arguments)
        if result.exit_code != 0:
            raise RuntimeError(f"exit code {result.exit_code}: {result.output}{result.exception!r}")
        return result.output

    def call(self, method, **kwargs):
        """Any method of the repository."""
        return getattr(self.repository, method)(**kwargs)

    def limit(self, method, **kwargs):
        """Any method of the limiter."""
        return getattr(self.limiter, method)(**kwargs)

    def available(self, entity, resource):
        """What the peer says is held of each limit."""
        return self.limiter.available(entity_id=entity, resource=resource)

    def acquire(self, entity, resource, consume, limits=None, also=None):
        """Holds a lease open until it is settled."""
        context = self.limiter.acquire(entity_id=entity, resource=resource, consume=consume, limits=limits, also=also)
        lease = context.__enter__()
        self.leases[len(self.leases)] = (context, lease)
        return len(self.leases) - 1

    def settle(self, lease, adjust=None, rollback=False):
        """Adjusts a lease and ends it."""
        context, held = self.leases.pop(lease)
        held.adjust(**(adjust or {}))
        if not rollback:
            context.__exit__(None, None, None)
            return
        try:
            context.__exit__(GivenUp, GivenUp(), None)
        except GivenUp:
            pass

    def swarm(self, threads, tries, entity, resource, consume):
        """Acquires from many threads, each with a limiter of its own, and counts.

        Says also when the first try began and the last one ended, in milliseconds."""
        counts = {"admitted": 0, "refused": 0, "failed": []}
        lock = threading.Lock()

        def work():
            repository = self.repository.namespace(self.repository.namespace_name)
            limiter = SyncRateLimiter(repository=repository)
            for _ in range(tries):
                try:
                    with limiter.acquire(entity_id=entity, resource=resource, consume=consume):
                        pass
                except zae.RateLimitExceeded:
                    outcome = "refused"
                except Exception as failure:
                    with lock:
                        counts["failed"].append(repr(failure))
                    continue
                else:
                    outcome = "admitted"
                with lock:
                    counts[outcome] += 1

        workers = [threading.Thread(target=work) for _ in range(threads)]
        counts["began"] = time.time_ns() // 1_000_000
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        counts["ended"] = time.time_ns() // 1_000_000
        return counts


def plain(value):
    """A value that json does not know, as one that it does."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)


def main():
    peer = Peer()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            kwargs = arguments(request)
            if request["op"] in ("call", "limit"):
                kwargs["method"] = request["method"]
            answer = {"result": getattr(peer, request["op"])(**kwargs)}
        except Exception as failure:
            answer = {"error": type(failure).__name__, "message": str(failure)}
            if isinstance(failure, zae.RateLimitExceeded):
                answer["details"] = failure.as_dict()
        print(json.dumps(answer, default=plain), flush=True)


if __name__ == "__main__":
    main()
