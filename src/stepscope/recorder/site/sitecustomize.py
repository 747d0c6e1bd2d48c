"""Puts the recorder into a rank that `stepscope record` started, before the job's first line. Found through PYTHONPATH.

Whatever else is called sitecustomize runs as it would have. A process that a recorded rank starts is left alone.
"""

import os
import sys


def _stepscope() -> None:
    if "STEPSCOPE_RECORD" not in os.environ or "STEPSCOPE_RECORD_OPENED" in os.environ:
        return
    try:
        from stepscope.recorder.start import start

        start()
    except Exception as error:
        print(f"stepscope: not recording ({type(error).__name__}: {error}); the job goes on", file=sys.stderr)


def _other() -> None:
    """The next sitecustomize on the path, which this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before the job's first line, as little as possible
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_stepscope()
_other()
