"""Where does the work go? Reads every commit's diff and prints where lines came and went."""

import re
from collections import Counter

from agent_tools import call, call_many, progress

REPOSITORY = "../.."

log = call("git__git_log", {"repo_path": REPOSITORY, "max_count": 300})
commits = re.findall(r"^Commit: ([0-9a-f]{40})$", log, flags=re.MULTILINE)

added, removed, touched = Counter(), Counter(), Counter()
for start in range(0, len(commits), 50):
    batch = commits[start : start + 50]
    shown = call_many(
        "git__git_show",
        [{"repo_path": REPOSITORY, "revision": commit} for commit in batch],
    )
    for diff in shown:
        old, parts = None, set()
        for line in diff.splitlines():
            if line.startswith("--- "):
                old = line[4:]
            elif line.startswith("+++ "):
                path = line[4:] if line != "+++ /dev/null" else old
                pieces = path.split("/")[1:]
                part = "/".join(pieces[:2]) if pieces[0] == "crates" else pieces[0]
                if part.endswith(".lock"):
                    part = "(lock files)"
                parts.add(part)
            elif line.startswith("+"):
                added[part] += 1
            elif line.startswith("-"):
                removed[part] += 1
        touched.update(parts)
    progress(start + len(batch), len(commits), "reading diffs")

print(f"{len(commits)} commits")
print(f"{'where':<24} {'commits':>7} {'added':>7} {'removed':>7}")
for part, lines in added.most_common(12):
    print(f"{part:<24} {touched[part]:>7} {lines:>7} {removed[part]:>7}")
