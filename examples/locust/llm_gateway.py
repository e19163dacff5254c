"""A gateway in front of eight models: reserves tokens, and settles to what was used."""

from worker_users import WorkerUser


class LLMGatewayUser(WorkerUser):
    pass
