package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// peakResident is the largest resident set that this process has had, in bytes; 0 where the system does not say. The figure
// belongs to this program alone: that of getrusage also counts what the process was before it became this program.
func peakResident() int64 { return procBytes("/proc/self/status", "VmHWM") }

// procBytes reads an entry like "MemTotal:  16384 kB" of a file under /proc; 0 where there is none.
func procBytes(file, name string) int64 {
	kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(procEntry(file, name), " kB"), 10, 64)
	return kilobytes << 10
}

// procEntry reads what stands behind "name:" in a file under /proc, "" where there is none.
func procEntry(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// machineMemory is what this process may take at most, in bytes; 0 where the system does not say.
func machineMemory() int64 {
	total := procBytes("/proc/meminfo", "MemTotal")
	if limit := groupMemoryLimit(""); limit > 0 && (limit < total || total == 0) {
		return limit
	}
	return total
}
