"""The Spark session: JVM, settings, protection, workers, and what is shipped to a cluster."""
