"""A worker that only takes part: its name, brokers and topic are arguments; SIGTERM ends it."""

import signal
import sys
import time

from recrawl.cluster.control_topic import ControlTopic
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.presence import Presence


def main() -> None:
    worker, bootstrap, topic = sys.argv[1:]
    own = Heartbeat(
        worker=worker, instance=str(time.time_ns()), started_at_ms=time.time_ns() // 1_000_000
    )
    presence = Presence(ControlTopic.open(bootstrap, topic), lambda: own)
    presence.start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM})
    presence.stop()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main()
