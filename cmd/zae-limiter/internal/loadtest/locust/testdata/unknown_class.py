"""A class that the load of the test has, and one that it does not have."""

from locust import User, task


class Reader(User):
    @task
    def nothing(self):
        pass


class Stranger(User):
    @task
    def nothing(self):
        pass
