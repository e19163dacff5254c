"""Users that acquire one request and wait 0.1 to 1 s, half of them with a parent."""

from worker_users import WorkerUser


class SimpleUser(WorkerUser):
    pass


class SimpleCascadeUser(WorkerUser):
    pass
