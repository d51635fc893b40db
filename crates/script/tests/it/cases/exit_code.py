import threading
import time
threading.Thread(target=lambda: (time.sleep(0.1), print("a thread that was not waited for"))).start()
print("leaving")
raise SystemExit(3)
# ends: failed
# exit: 3
# prints: leaving
# prints: a thread that was not waited for
