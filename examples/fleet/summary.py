"""How is the fleet? Asks every device and prints one table and what needs attention."""

from collections import Counter, defaultdict

from agent_tools import call, call_many, progress

devices = call("fleet__list_devices", {})["devices"]
serials = [device["sn"] for device in devices]

rows = []
for start in range(0, len(serials), 50):
    batch = serials[start : start + 50]
    rows += call_many("fleet__get_device_status", [{"sn": sn} for sn in batch])
    progress(len(rows), len(serials), "asking the devices")

sites = defaultdict(list)
for row in rows:
    sites[row["site"]].append(row)

print(f"{'site':<8} {'devices':>7} {'online':>6} {'mean °C':>7} {'alarms':>6}")
for site, members in sorted(sites.items()):
    online = sum(row["online"] for row in members)
    mean = sum(row["temperature_c"] for row in members) / len(members)
    alarms = sum(len(row["alarms"]) for row in members)
    print(f"{site:<8} {len(members):>7} {online:>6} {mean:>7.1f} {alarms:>6}")

firmware = Counter(row["firmware"] for row in rows)
newest = max(firmware, key=lambda version: tuple(map(int, version.split("."))))
behind = sum(count for version, count in firmware.items() if version != newest)
print(f"\n{behind} of {len(rows)} devices are behind firmware {newest}.")

urgent = [row for row in rows if row["online"] and "overheated" in row["alarms"]]
urgent.sort(key=lambda row: (-row["temperature_c"], row["sn"]))
print(f"{len(urgent)} devices are online and overheated; the hottest:")
for row in urgent[:5]:
    print(f"  {row['sn']}  {row['temperature_c']} °C  {row['site']}")
