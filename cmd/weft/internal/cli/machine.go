package cli

import (
	"bufio"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/refusal"
)

// PeakResident is the largest resident set of this process in bytes; 0: the system does not say. It counts
// only this program: getrusage would also count what the process ran before.
func PeakResident() int64 { return ProcBytes("/proc/self/status", "VmHWM") }

// ProcBytes reads an entry like "MemTotal:  16384 kB" of a file under /proc; 0: there is none.
func ProcBytes(file, name string) int64 {
	kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(ProcEntry(file, name), " kB"), 10, 64)
	return kilobytes << 10
}

// ProcEntry reads the text after "name:" in a file under /proc; "": there is none.
func ProcEntry(file, name string) string {
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

// LimitMemory sets the memory limit of Go's runtime, unless GOMEMLIMIT is lower, to the memory of the machine
// or its control group, or to what the limits of this process (ulimit -v, -d) leave. Then garbage is
// collected in time, and memory for which there is no room can be refused before it is taken (memory.Need).
func LimitMemory() {
	const status = "/proc/self/status"
	mapped := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(mapped)
	heap := int64(mapped[0].Value.Uint64() - mapped[1].Value.Uint64())
	limit := int64(math.MaxInt64)
	if machine := MachineMemory(); machine > 0 {
		limit = machine - machine/64 - ProcBytes(status, "VmRSS") // page tables and the like
	}
	// Each later thread takes a stack and an arena of the C library.
	const perThread, few = 80 << 20, 4
	threads := int64(perThread * (few + runtime.GOMAXPROCS(0)))
	for _, bound := range []struct {
		resource int
		taken    string
	}{{unix.RLIMIT_AS, "VmSize"}, {unix.RLIMIT_DATA, "VmData"}} {
		var allowed unix.Rlimit
		if err := unix.Getrlimit(bound.resource, &allowed); err == nil && allowed.Cur < math.MaxInt64 {
			limit = min(limit, int64(allowed.Cur)-(ProcBytes(status, bound.taken)-heap)-threads)
		}
	}
	const least = 64 << 20
	debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), max(limit, least)))
}

// MachineMemory is how many bytes this process may take; 0 if the system does not say.
func MachineMemory() int64 {
	total := ProcBytes("/proc/meminfo", "MemTotal")
	if limit := GroupMemoryLimit(""); limit > 0 && (limit < total || total == 0) {
		return limit
	}
	return total
}

// CheckFiles refuses a run if this process, which holds so many places of the mesh, may open too few files.
func CheckFiles(places int) error {
	// All places write a checkpoint at the same time.
	const ofRun, ofPlace = 24, 4
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := ofRun + ofPlace*places; limit.Cur < uint64(need) {
		return refusal.Errorf("the run may have %d files open at once, and this process may open %d; "+
			"allow it more: ulimit -n %[1]d", need, limit.Cur)
	}
	return nil
}

// controlGroups are the folders of this process's control groups for a controller ("cpu", "memory"), and of
// the groups around them, whose limits apply, too. There are several hierarchies if version 1 is mounted
// beside version 2. root is put before every path; it is empty outside tests.
func controlGroups(root, controller string) (folders []string) {
	mounts, _ := os.ReadFile(root + "/proc/self/mountinfo") // without it no group is found
	joined, _ := os.ReadFile(root + "/proc/self/cgroup")
	for line := range strings.Lines(string(mounts)) {
		mount, system, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(mount), strings.Fields(system)
		if len(place) < 5 || len(kind) < 3 {
			continue
		}
		var group string
		switch {
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), controller):
			group = groupPath(string(joined), controller)
		case kind[0] == "cgroup2":
			group = groupPath(string(joined), "")
		default:
			continue
		}
		shown, mountPoint := place[3], place[4]
		if shown != "/" { // only a part of the hierarchy is shown, as in a container
			group = strings.TrimPrefix(group, shown)
		}
		for within := path.Clean("/" + group); ; within = path.Dir(within) {
			folders = append(folders, root+filepath.Join(mountPoint, within))
			if within == "/" {
				break
			}
		}
	}
	return folders
}

// groupPath finds the group that /proc/self/cgroup names for a controller of version 1 or, with an empty
// name, for version 2.
func groupPath(joined, controller string) string {
	for line := range strings.Lines(joined) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return "/"
}

// GroupMemoryLimit is how many bytes the control groups (a container, a Slurm job) allow this process; 0: no
// limit is known.
func GroupMemoryLimit(root string) int64 {
	least := int64(math.MaxInt64)
	for _, folder := range controlGroups(root, "memory") {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			text, _ := os.ReadFile(filepath.Join(folder, name))
			if limit, ok := parseMemoryLimit(string(text)); ok {
				least = min(least, limit)
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// parseMemoryLimit reads memory.max or memory.limit_in_bytes. "max", and the huge number that version 1 has
// in its place, are no limits.
func parseMemoryLimit(text string) (bytes int64, limited bool) {
	const none = 1 << 60
	bytes, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return bytes, err == nil && bytes > 0 && bytes < none
}

// GroupQuota is how many cores' time the control groups allow this process; 0: no quota is known.
func GroupQuota(root string) float64 {
	least := math.Inf(1)
	for _, folder := range controlGroups(root, "cpu") {
		text, err := os.ReadFile(filepath.Join(folder, "cpu.max"))
		if err != nil { // version 1 has the same two numbers in two files
			quota, _ := os.ReadFile(filepath.Join(folder, "cpu.cfs_quota_us"))
			period, _ := os.ReadFile(filepath.Join(folder, "cpu.cfs_period_us"))
			text = slices.Concat(quota, []byte(" "), period)
		}
		if cores, ok := parseQuota(string(text)); ok {
			least = min(least, cores)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// parseQuota reads "quota period" in microseconds. A quota of "max", or of −1 in version 1, is none.
func parseQuota(text string) (cores float64, limited bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, false
	}
	quota, badQuota := strconv.ParseInt(fields[0], 10, 64)
	period, badPeriod := strconv.ParseInt(fields[1], 10, 64)
	if badQuota != nil || badPeriod != nil || quota <= 0 || period <= 0 {
		return 0, false
	}
	return float64(quota) / float64(period), true
}
