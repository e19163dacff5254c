"""A morning of the gateway: from 50 users to 150 within 20 minutes."""

from shapes import Stages
from worker_users import WorkerUser


class LLMGatewayUserReal(WorkerUser):
    pass


class MorningSpike(Stages):
    stages = (
        (600, 50, 2),
        (600, 150, 3),
        (1800, 150, 1),
        (600, 100, 1),
    )
