"""The class of mixed.yaml. Locust needs a task, but the workers know what users do."""

from locust import User, constant, task


class Mixed(User):
    wait_time = constant(1)

    @task
    def nothing(self):
        pass
