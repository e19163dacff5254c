"""boto3, driven by JSON lines: a request on each line of standard input, its
answer on a line of standard output.

A request is {"op": name, ...arguments}; an answer is {"result": ...}, or
{"error": code, "message": what the service answered as JSON, or the exception as
text}. Bytes are {"bytes": base64} both ways, times are ISO 8601.
"""

import base64
import datetime
import json
import sys

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError


class Boto:
    """Clients of both services, with one set of credentials."""

    def __init__(self):
        self.clients = {}

    def connect(self, endpoint, access_key=None, secret_key=None):
        """Makes the clients; without keys their requests are not signed."""
        config = Config(retries={"total_max_attempts": 1}, signature_version=UNSIGNED if access_key is None else None)
        for service in ("dynamodb", "dynamodbstreams"):
            self.clients[service] = boto3.session.Session().client(
                service, region_name="us-east-1", endpoint_url=endpoint, config=config,
                aws_access_key_id=access_key, aws_secret_access_key=secret_key,
            )

    def call(self, method, service="dynamodb", **kwargs):
        """One request; the answer is without its metadata."""
        answer = getattr(self.clients[service], method)(**kwargs)
        del answer["ResponseMetadata"]
        return answer

    def pages(self, method, **kwargs):
        """All pages of an operation, as boto3's paginator asks for them."""
        pages = self.clients["dynamodb"].get_paginator(method).paginate(**kwargs)
        return [{k: v for k, v in page.items() if k != "ResponseMetadata"} for page in pages]

    def wait(self, waiter, **kwargs):
        """Waits with a waiter of boto3, not for long."""
        self.clients["dynamodb"].get_waiter(waiter).wait(WaiterConfig={"Delay": 1, "MaxAttempts": 5}, **kwargs)


def plain(value):
    """A value that json does not know, as one that it does."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {value!r}")


def rich(value):
    """What plain made of bytes, as bytes."""
    return base64.b64decode(value["bytes"]) if set(value) == {"bytes"} else value


def main():
    boto = Boto()
    for line in sys.stdin:
        request = json.loads(line, object_hook=rich)
        try:
            answer = {"result": getattr(boto, request.pop("op"))(**request)}
        except ClientError as failure:
            answer = {"error": failure.response["Error"]["Code"], "message": json.dumps(failure.response, default=plain)}
        except BotoCoreError as failure:
            answer = {"error": type(failure).__name__, "message": str(failure)}
        print(json.dumps(answer, default=plain), flush=True)


if __name__ == "__main__":
    main()
