"""The scenario max-rps as users of the Python peer's Locust integration: they acquire again at
once, half of them with a parent. The limiter has its defaults. Set-up comes before the test.
What is measured begins when all users run. At the end, a JSON file has the figures: $FIGURES
names it.
"""

import json
import os
import random
import resource
import time

import gevent
from locust import constant, events, task
from zae_limiter import EntityExistsError, Limit, SyncRateLimiter
from zae_limiter.locust import RateLimiterUser

ENTITIES = 20
STACK, REGION = os.environ["TARGET_STACK_NAME"], os.environ["TARGET_REGION"]


def cpu_time():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Began:
    cpu = seconds = 0.0
    runner = None


@events.init.add_listener
def keep(environment, **_):
    Began.runner = environment.runner


@events.test_start.add_listener
def set_up(**_):
    limiter = SyncRateLimiter(name=STACK, region=REGION)
    limiter.set_resource_defaults("api", [Limit.per_minute("rpm", 1_000_000_000)])
    make(limiter, entity_id="parent")
    for i in range(ENTITIES):
        make(limiter, entity_id=f"child-{i}", parent_id="parent", cascade=True)


def make(limiter, **entity):
    try:
        limiter.create_entity(**entity)
    except EntityExistsError:
        pass  # an earlier round made it


@events.spawning_complete.add_listener
def begin(**_):
    Began.cpu, Began.seconds = cpu_time(), time.monotonic()
    gevent.spawn_later(float(os.environ["LASTS"]), Began.runner.quit)


@events.test_stop.add_listener
def write(environment, **_):
    total = environment.stats.total
    with open(os.environ["FIGURES"], "w", encoding="utf-8") as f:
        json.dump(
            {
                "requests": total.num_requests,
                "failures": total.num_failures,
                "seconds": time.monotonic() - Began.seconds,
                "cpu": cpu_time() - Began.cpu,
                "p50": total.get_response_time_percentile(0.5),
                "p99": total.get_response_time_percentile(0.99),
            },
            f,
        )


class Acquirer(RateLimiterUser):
    abstract = True
    wait_time = constant(0)
    stack_name, region = STACK, REGION
    entity = "user"

    @task
    def acquire(self):
        with self.client.acquire(
            entity_id=f"{self.entity}-{random.randrange(ENTITIES)}", resource="api", consume={"rpm": 1}
        ):
            pass


class MaxRpsUser(Acquirer):
    pass


class MaxRpsCascadeUser(Acquirer):
    entity = "child"
