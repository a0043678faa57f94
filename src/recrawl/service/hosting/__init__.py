"""The corpora of a server, with their threads and queues."""
