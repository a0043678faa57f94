"""Workers that share the partitions of a corpus on Kafka.

Each worker tells the others every second that it lives, in a topic beside the log.  From what they
read there, all of them compute the same placement: which worker owns which partition, and which one
stands by.  Nothing that must not go wrong depends on it: a worker owns a partition by a claim in
the log of that partition, and if two claim it, the last claim decides.
"""
