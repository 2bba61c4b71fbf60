"""Runs snippets of Python, one JSON string a line, in one namespace, and answers each with one JSON object:
what it said, and the module that is missing or the error. Modules beside this file stand in for those that
are not installed."""

import contextlib
import io
import json
import os
import sys
import traceback

sys.path[:] = sys.path[1:] + [os.path.dirname(os.path.abspath(__file__))]
names = {}
for line in sys.stdin:
    answer, stdout = {}, io.StringIO()
    try:
        with contextlib.redirect_stdout(stdout):
            exec(compile(json.loads(line), "the snippet", "exec"), names)
    except ModuleNotFoundError as missing:
        answer["missing"] = missing.name
    except Exception:
        answer["error"] = traceback.format_exc()
    answer["said"] = stdout.getvalue()
    print(json.dumps(answer), flush=True)
