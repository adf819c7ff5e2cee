"""What may happen to a part in a worker: functions of a module, so that another process finds them by name."""

import os
import signal


def die(work, rows, argument):
    os.kill(os.getpid(), signal.SIGKILL)
