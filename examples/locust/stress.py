"""16,000 entities with a whale, a spiker and a power law, on eight resources."""

from worker_users import WorkerUser


class StressUser(WorkerUser):
    pass
