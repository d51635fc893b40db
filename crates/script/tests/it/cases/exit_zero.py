import sys
print("done", end="")
sys.exit()
# ends: completed
# exit: 0
# prints: done
