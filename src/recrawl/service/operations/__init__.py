"""What the operators of a server use: metrics and the log of requests."""
