"""The class path of a Kafka broker, whose jars come from Maven."""

from __future__ import annotations

from integration_tests.services.maven_jars import resolved, spark_home
from integration_tests.services.state import State

KAFKA_VERSION = "4.3.0"


def classpath(state: State) -> str:
    """Return the class path of a broker that logs through Spark's log4j."""
    package = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
    jars = [
        jar
        for jar in resolved(f"kafka-{KAFKA_VERSION}", [package], state.log("jars"))
        # An older SLF4J, which finds no logging and so would leave a broker without a log.
        if not jar.name.startswith("org.slf4j_")
    ]
    # Spark's resolver leaves Scala out, since Spark itself brings it.
    borrowed = [
        jar
        for prefix in ("scala-library-", "slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-", "log4j-core-")
        for jar in sorted((spark_home() / "jars").glob(f"{prefix}*.jar"))
    ]
    return ":".join(str(jar) for jar in [*jars, *borrowed])
