"""The Python peer as one side of a comparison: an order on each line of standard
input, {"op": name, ...arguments}, and its result on a line of standard output,
both JSON. It is used as a program that is written for it would use it: asyncio,
one RateLimiter, everything left at its default.
"""

import asyncio
import gc
import json
import resource
import sys
import time
import warnings

import zae_limiter as zae
from zae_limiter.repository import Repository

warnings.simplefilter("ignore")


def cpu_time():
    """The CPU time that the process has used, in nanoseconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int((used.ru_utime + used.ru_stime) * 1e9)


class Side:
    """One limiter, and the entities that it is asked for."""

    async def open(self, endpoint, region, table, resource, entities, limit, opening, consume):
        """Makes the buckets, each with one acquire, and a second that is warm."""
        repository = await Repository.open(stack=table, region=region, endpoint_url=endpoint, auto_update=False)
        self.limiter = zae.RateLimiter(repository=repository)
        self.resource, self.entities, self.consume = resource, entities, consume
        await self.limiter.set_resource_defaults(resource, [zae.Limit(**limit)])
        for entity in entities:
            await self.acquire(entity, opening)
            await self.acquire(entity, consume)

    async def acquire(self, entity, consume):
        async with self.limiter.acquire(entity_id=entity, resource=self.resource, consume=consume):
            pass

    async def burst(self, callers, spread, long):
        """Has callers acquire until long nanoseconds have passed, of one entity or
        of one each, and each at least once."""
        took = []
        gc.collect()
        cpu, start = cpu_time(), time.perf_counter_ns()

        async def call(entity):
            begun = start
            while True:
                await self.acquire(entity, self.consume)
                ended = time.perf_counter_ns()
                took.append(ended - begun)
                if ended - start >= long:
                    return
                begun = ended

        await asyncio.gather(*(call(self.entities[i if spread else 0]) for i in range(callers)))
        return {"Elapsed": time.perf_counter_ns() - start, "CPU": cpu_time() - cpu, "Took": took}


async def main():
    side = Side()
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        answer = await getattr(side, order.pop("op"))(**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
