"""Child processes cannot call, and do not disturb the parent that can."""
import multiprocessing
import os
import subprocess

from agent_tools import ToolError, call


def work(number):
    try:
        call("echo", {})
    except ToolError as error:
        return number, error.kind


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(3)))
    print(subprocess.run(["/bin/sh", "-c", "ls /proc/self/fd | wc -l"], capture_output=True, text=True).stdout.strip())
    child = os.fork()
    if child == 0:
        raise RuntimeError("of the child only")
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(call("text"))
# ends: completed
# prints: [(0, 'upstream'), (1, 'upstream'), (2, 'upstream')]
# prints: 4
# prints: 1
# prints: hello
