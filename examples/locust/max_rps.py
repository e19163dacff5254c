"""Users that acquire again at once, half of them with a parent."""

from worker_users import WorkerUser


class MaxRpsUser(WorkerUser):
    pass


class MaxRpsCascadeUser(WorkerUser):
    pass
