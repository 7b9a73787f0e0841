"""A Kafka broker that also listens on the network of the pods, for the tests of one module."""

from __future__ import annotations

import shutil
from types import TracebackType
from typing import Final, Self

from integration_tests.services.kafka_native import KafkaNative, Listener, Own
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import await_kafka
from integration_tests.services.state import State, data_folder, free_port, tail

_KIND: Final = "kafka-for-pods"


class KafkaForPods:
    """As a context manager it runs inside the block. `bootstrap` is for this machine's programs."""

    def __init__(self, address: str) -> None:
        """
        Args:
            address: this machine's on the network of the pods.
        """
        state = State(_KIND)
        self._folder = data_folder() / _KIND
        listener = Listener(free_port(0), host=address)
        self._native = KafkaNative(state, self._folder, free_port(0), free_port(0), Own({"PODS": listener}))
        self._process: ServerProcess | None = None
        self.bootstrap = self._native.bootstrap
        self.bootstrap_of_pods = f"{address}:{listener.port}"

    def __enter__(self) -> Self:
        self._folder.mkdir()
        process = self._process = self._native.start()
        await_kafka(self.bootstrap, lambda: None if process.running() else tail(self._native.log))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self._folder)
