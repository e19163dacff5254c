"""Two classes of users. Locust needs a task, but the workers know what users do."""

from locust import User, constant, task


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
