"""A process that computes points of a sweep: ``python -m quincunx._worker``.

It reads pickled messages from its standard input and writes answers to its standard output, each with its
length in front. The first message is the sweep; every other one the number of a point.
"""

from __future__ import annotations

import pickle
import struct
import sys
from typing import IO, Any

LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], message: Any) -> None:
    """Writes a message."""
    text = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(LENGTH.pack(len(text)))
    stream.write(text)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Reads a message; ``EOFError`` when there is none."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    text = stream.read(length)
    if len(text) < length:
        raise EOFError
    return pickle.loads(text)


def bounded(memory: int | None) -> None:
    """Limits the memory of this process to so many bytes."""
    if memory is None:
        return
    try:
        import resource
    except ImportError:  # Not everywhere.
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main() -> None:
    """Answers until there are no more messages."""
    commands, answers = sys.stdin.buffer, sys.stdout.buffer
    # What other code prints must not come between the answers.
    sys.stdout = sys.stderr
    from ._sweep import Task, computed

    try:
        task, memory = receive(commands)
        assert isinstance(task, Task)
        bounded(memory)
        while True:
            send(answers, computed(task, receive(commands)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass


if __name__ == "__main__":
    main()
