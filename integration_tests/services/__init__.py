"""Kafka and a database for the integration tests: found, or started and stopped here.

`values` says what a test gets, `obtain` where it comes from: addresses in the environment, else containers
(`containers`), else processes of this machine (`native`, with `kafka_native` and `mariadb_native`). On the command
line: `python -m integration_tests.services --help`.
"""

from integration_tests.services.obtain import obtain
from integration_tests.services.values import Control, NoControlError, Server, ServiceError, Services

__all__ = ["Control", "NoControlError", "Server", "ServiceError", "Services", "obtain"]
