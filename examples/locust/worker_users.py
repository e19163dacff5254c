"""What the locustfiles here share: users whose work is done by zae-limiter loadtest worker."""

from locust import User, constant, task


class WorkerUser(User):
    """A class of a scenario. Its subclass has the name of the class in the scenario's file.

    The workers know what such a user does and how long it waits. Locust only counts it, but
    refuses a class without a task.
    """

    abstract = True
    wait_time = constant(1)

    @task
    def in_the_worker(self):
        raise RuntimeError("this process is no worker: start zae-limiter loadtest worker")
