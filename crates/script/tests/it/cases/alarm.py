"""A signal handler that raises in the middle of a call leaves the channel in order."""
import signal

from agent_tools import call, call_many


def ring(*_):
    raise TimeoutError("rang")


signal.signal(signal.SIGALRM, ring)
for _ in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    try:
        call("slow", {"x": 1})
        print("answered")
    except TimeoutError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
# More than run at once: each is given up and makes room for the next.
for _ in range(6):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        call_many("never", [{}] * 6)
    except TimeoutError as error:
        print(error)
print(call("echo", {"i": 1}), call("text"))
# ends: completed
# prints: rang
# prints: rang
# prints: rang
# prints: rang
# prints: rang
# prints: rang
# prints: {'i': 1} hello
