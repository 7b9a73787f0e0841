"""Ways into a user's own Spark job: `foreachBatch(ExactlyOnce(…))`, `format("eos")` and `format("eos_kafka")`."""
