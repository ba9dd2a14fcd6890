"""Python runs this at its start because `memest record` put its folder first on PYTHONPATH. It starts the recorder, and then whatever
sitecustomize the environment has of its own."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_the_next():
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    mine, sys.path = sys.path, others
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.path = mine
        sys.modules.setdefault("sitecustomize", this)  # who imports this file looks for it there


import memest_recorder  # noqa: E402

memest_recorder.install()
run_the_next()
