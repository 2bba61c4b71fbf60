package cli

import (
	"bufio"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weft/internal/refusal"
)

// PeakResident is the largest resident set of this process in bytes; 0 if the system does not say. It counts
// this program alone: getrusage would also count what the process ran before.
func PeakResident() int64 { return ProcBytes("/proc/self/status", "VmHWM") }

// ProcBytes reads an entry like "MemTotal:  16384 kB" of a file under /proc; 0 where there is none.
func ProcBytes(file, name string) int64 {
	kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(ProcEntry(file, name), " kB"), 10, 64)
	return kilobytes << 10
}

// ProcEntry reads the text after "name:" in a file under /proc, "" if there is none.
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

// LimitMemory sets the memory limit of Go's runtime, unless GOMEMLIMIT is lower: the memory of the machine or
// its control group, or what the limits of this process (ulimit -v, -d) leave. Then garbage is collected in
// time, and memory that does not fit can be refused before (memory.Need).
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
	// Each thread to come takes a stack and an arena of the C library.
	const perThread, few = 80 << 20, 4
	threads := int64(perThread * (few + runtime.GOMAXPROCS(0)))
	for _, of := range []struct {
		resource int
		taken    string
	}{{unix.RLIMIT_AS, "VmSize"}, {unix.RLIMIT_DATA, "VmData"}} {
		var allowed unix.Rlimit
		if err := unix.Getrlimit(of.resource, &allowed); err == nil && allowed.Cur < math.MaxInt64 {
			limit = min(limit, int64(allowed.Cur)-(ProcBytes(status, of.taken)-heap)-threads)
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

// CheckFiles refuses a run for which this process, which holds so many places of the mesh, may open too few
// files.
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
