"""Values of every type, as they travel from a writer through Kafka into databases."""
