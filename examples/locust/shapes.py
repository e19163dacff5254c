"""A shape of a load: stages that follow one another."""

from locust import LoadTestShape


class Stages(LoadTestShape):
    """Stages of (seconds, users, users started or stopped a second)."""

    abstract = True
    stages = ()

    def tick(self):
        end = 0
        for seconds, users, rate in self.stages:
            end += seconds
            if self.get_run_time() < end:
                return users, rate
        return None
