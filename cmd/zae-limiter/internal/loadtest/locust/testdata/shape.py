"""Two classes of users, and a shape of some seconds."""

from locust import LoadTestShape, User, constant, task


class Reader(User):
    wait_time = constant(1)

    @task
    def nothing(self):
        pass


class Writer(User):
    wait_time = constant(1)
    weight = 3

    @task
    def nothing(self):
        pass


class Short(LoadTestShape):
    def tick(self):
        return (8, 100) if self.get_run_time() < 4 else None
