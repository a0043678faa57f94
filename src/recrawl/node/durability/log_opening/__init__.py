"""Open the log of a corpus: in its folder, or in a Kafka topic that must be its own."""
