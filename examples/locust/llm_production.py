"""A day of the gateway: 15 users at night, 150 through the day."""

from shapes import Stages
from worker_users import WorkerUser


class LLMGatewayUserReal(WorkerUser):
    pass


class ProductionDailyLoad(Stages):
    stages = (
        (6 * 3600, 15, 1),
        (2 * 3600, 100, 1),
        (1 * 3600, 150, 2),
        (8 * 3600, 150, 1),
        (2 * 3600, 120, 0.5),
        (4 * 3600, 30, 0.5),
        (1 * 3600, 15, 0.5),
    )
