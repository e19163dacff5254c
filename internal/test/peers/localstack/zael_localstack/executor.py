"""Runs each function of LocalStack as a process under AWS's runtime interface emulator.

LocalStack needs a Docker engine to run functions. With LAMBDA_RUNTIME_EXECUTOR=process,
it starts the executable named bootstrap in the function's code instead, through the
emulator at ZAEL_RUNTIME_EMULATOR. Only functions of the provided runtimes work.

Differences from AWS: the function shares this machine's file system and user, nothing
limits its memory, its architecture is not checked, and its ARN and request id in the
invocation context are those of the emulator.
"""

import json
import os
import subprocess
import tempfile
import time

import requests
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import LambdaRuntimeException, RuntimeExecutor
from localstack.utils.net import get_free_tcp_port, is_port_open

HOST = "127.0.0.1"
START_SECONDS = 20
STOP_SECONDS = 2
INVOKE_SECONDS = 900 + 5  # the longest timeout of a function, and a margin

# Runs a program that is killed with its group as soon as standard input ends. The test
# that started LocalStack holds the other end: where the test dies, so do all functions.
WATCHED = 'exec 3<&0; (cat <&3; kill -9 -$$) >/dev/null 2>&1 & exec "$@" 3<&-'


class ProcessPlugin(RuntimeExecutorPlugin):
    """Offers the executor under the name process."""

    name = "process"

    def load(self, *args, **kwargs):
        return ProcessExecutor


class ProcessExecutor(RuntimeExecutor):
    """One execution environment of a function: the emulator, and below it the bootstrap."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id, function_version)
        self.process: subprocess.Popen | None = None
        self.port = get_free_tcp_port()
        self.log = tempfile.TemporaryFile()

    def start(self, env_vars: dict[str, str]) -> None:
        code = self.function_version.config.code.get_unzipped_code_location()
        environment = {name: str(value) for name, value in env_vars.items()}
        environment |= {"PATH": os.environ["PATH"], "LAMBDA_TASK_ROOT": str(code)}
        self.process = subprocess.Popen(
            ["sh", "-c", WATCHED, "sh", os.environ["ZAEL_RUNTIME_EMULATOR"],
             "--runtime-interface-emulator-address", f"{HOST}:{self.port}",
             "--runtime-api-address", f"{HOST}:{get_free_tcp_port()}", "./bootstrap"],
            cwd=code, env=environment, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not is_port_open(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise LambdaRuntimeException(f"the runtime interface emulator does not start: {self.get_logs()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the emulator. Its bootstrap ends too, because it loses the runtime API."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        before = os.fstat(self.log.fileno()).st_size
        answer = requests.post(
            f"http://{HOST}:{self.port}/2015-03-31/functions/function/invocations",
            data=payload["payload"].encode(), timeout=INVOKE_SECONDS, proxies={"http": ""})
        body, failed = outcome(answer)
        return InvocationResult(payload["invoke-id"], body, is_error=failed, logs=self.read_log(before))

    def read_log(self, start: int) -> str:
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size - start, start).decode(errors="replace")

    def get_logs(self) -> str:
        return self.read_log(0)

    def get_address(self) -> str:
        return HOST

    def get_endpoint_from_executor(self) -> str:
        return HOST

    def get_runtime_endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"  # nothing calls it: the emulator answers invocations itself

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        pass  # LocalStack deletes the code that prepare_version has unzipped


def outcome(answer: requests.Response) -> tuple[bytes, bool]:
    """Returns the body of an answer, and whether the function has failed.

    The emulator answers 200 to failures as well: an object with an error's type and
    message, or plain text where the function timed out.
    """
    try:
        said = answer.json()
    except ValueError:
        return json.dumps({"errorType": "Sandbox.Failed", "errorMessage": answer.text}).encode(), True
    failed = isinstance(said, dict) and {"errorType", "errorMessage"} <= said.keys()
    return answer.content, failed or not answer.ok
