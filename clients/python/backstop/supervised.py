"""What a worker tells whoever has started its process: who it is, so that its death can be told to the server."""

import json
import logging
import os
import threading
import uuid
from typing import Dict, Optional, Tuple

_log = logging.getLogger("backstop")

#: The variable that names a file to which every worker of this process adds a line. `backstop work` sets it.
WORKERS_FILE = "BACKSTOP_WORKERS_FILE"

_lock = threading.Lock()

#: By process, because a fork is another one, and by the name of the worker.
_instances: Dict[Tuple[int, str], Optional[str]] = {}


def instance(worker: str) -> Optional[str]:
    """Which of the processes that ever had this name this one is; none where nobody would tell of its death."""
    path = os.environ.get(WORKERS_FILE)
    if not path:
        return None
    who = (os.getpid(), worker)
    with _lock:
        if who not in _instances:
            _instances[who] = _introduce(path, worker)
        return _instances[who]


def _introduce(path: str, worker: str) -> Optional[str]:
    made_up = uuid.uuid4().hex
    line = json.dumps({"worker": worker, "instance": made_up}) + "\n"
    try:
        # Whoever started this process has made the file.
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    except OSError as problem:
        _log.warning(
            "cannot tell who started this process which workers it has (%s); if it dies, its runs are taken back when "
            "their lease has run out",
            problem,
        )
        return None
    return made_up
