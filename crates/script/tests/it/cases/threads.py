"""Calls from many threads at once find their own replies."""
import threading
from concurrent.futures import ThreadPoolExecutor

from agent_tools import call, call_many

with ThreadPoolExecutor(16) as pool:
    rows = list(pool.map(lambda i: call("echo", {"i": i})["i"], range(500)))
print(rows == list(range(500)))
with ThreadPoolExecutor(4) as pool:
    lists = list(pool.map(lambda k: call_many("slow", [{"k": k, "i": i} for i in range(10)]), range(4)))
print(all(row == {"k": k, "i": i} for k, rows in enumerate(lists) for i, row in enumerate(rows)))
pool = [threading.Thread(target=lambda: print(call("text"))) for _ in range(2)]
[thread.start() for thread in pool]
# ends: completed
# prints: True
# prints: True
# prints: hello
# prints: hello
# calls: 542 reached, 0 failed, 0 refused
