package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"weft/internal/cores"
	"weft/kernel"
)

type buildFinding struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func findBuild() buildFinding { return buildFinding{version, runtime.Version()} }

func (f buildFinding) line() (what, found, advice string) { return "weft", f.Version + ", " + f.Go, "" }

type coresFinding struct {
	// Online: of the machine, as the system counts them: hyperthreads count
	Online    int    `json:"online"`
	Allowed   int    `json:"allowed"`                    // those that this process may run on
	Threads   int    `json:"threads"`                    // of a run without --threads
	PerCore   int    `json:"threads_per_core,omitempty"` // hyperthreads of a physical core
	Processor string `json:"processor,omitempty"`
	Advice    string `json:"advice"`
}

func findCores(root string) coresFinding {
	f := coresFinding{
		Allowed: runtime.NumCPU(), Threads: cores.Count(), Processor: procEntry(root+"/proc/cpuinfo", "model name"),
		PerCore: listLength(systemFile(root, "devices/system/cpu/cpu0/topology/thread_siblings_list")),
	}
	f.Online = max(f.Allowed, listLength(systemFile(root, "devices/system/cpu/online")))
	f.Advice = coresAdvice(f, os.Getenv("GOMAXPROCS") != "")
	return f
}

func coresAdvice(f coresFinding, chosen bool) string {
	switch {
	case f.Threads < f.Allowed && chosen:
		return fmt.Sprintf("a run takes %d of them: unset GOMAXPROCS for all", f.Threads)
	case f.Threads < f.Allowed:
		return fmt.Sprintf("a run takes %d of them, because of the quota", f.Threads)
	case f.Allowed < f.Online:
		return fmt.Sprintf("this process may use %d: ask for more to train faster", f.Allowed)
	case f.PerCore > 1:
		return fmt.Sprintf("%d threads share a core: --threads %d may do as well", f.PerCore, max(1, f.Threads/f.PerCore))
	}
	return "a run uses all; --threads N leaves some to others"
}

func (f coresFinding) line() (what, found, advice string) {
	found = fmt.Sprint(f.Online)
	if f.Processor != "" {
		found += ", " + f.Processor
	}
	return "cores", found, f.Advice
}

type quotaFinding struct {
	Cores  float64 `json:"cores,omitempty"` // worth of time; absent: no quota
	Advice string  `json:"advice"`
}

func findQuota(root string) quotaFinding {
	f := quotaFinding{Cores: groupQuota(root)}
	f.Advice = quotaAdvice(f.Cores, cores.Count())
	return f
}

func quotaAdvice(cores float64, threads int) string {
	switch {
	case cores == 0:
		return "nothing limits the time on the cores"
	case cores < float64(threads):
		return fmt.Sprintf("%d threads are held back: --threads %d wastes less", threads, max(1, int(cores)))
	}
	return "enough for every thread of a run"
}

func (f quotaFinding) line() (what, found, advice string) {
	if f.Cores == 0 {
		return "CPU quota", "none", f.Advice
	}
	return "CPU quota", fmt.Sprintf("time of %.3g cores", f.Cores), f.Advice
}

type loadFinding struct {
	Average *float64 `json:"average_1_minute,omitempty"` // processes that run or want to
	// State: idle, shared (half of the cores are taken) or busy (all are)
	State  string `json:"state,omitempty"`
	Advice string `json:"advice"`
}

func findLoad(root string) loadFinding {
	text, _ := os.ReadFile(root + "/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return loadFinding{}
	}
	f := loadFinding{Average: &average}
	f.State, f.Advice = loadAdvice(average, max(runtime.NumCPU(), listLength(systemFile(root, "devices/system/cpu/online"))))
	return f
}

func loadAdvice(average float64, cores int) (state, advice string) {
	switch {
	case average >= float64(cores):
		return "busy", "busy: the rates below are lower than the machine's own"
	case average >= float64(cores)/2:
		return "shared", "others take part of the machine: rates may be low"
	}
	return "idle", "idle enough to be measured"
}

func (f loadFinding) line() (what, found, advice string) {
	if f.Average == nil {
		return "load", "not known: no /proc/loadavg", f.Advice
	}
	return "load", fmt.Sprintf("%.2f in the last minute", *f.Average), f.Advice
}

type numaFinding struct {
	Nodes  int    `json:"nodes,omitempty"`
	Advice string `json:"advice"`
}

func findNUMA(root string) numaFinding {
	f := numaFinding{Nodes: listLength(systemFile(root, "devices/system/node/online"))}
	f.Advice = numaAdvice(f.Nodes)
	return f
}

func numaAdvice(nodes int) string {
	switch {
	case nodes > 1:
		return "numactl --interleave=all weft …, or -N 0 -m 0 if one will do"
	case nodes == 1:
		return "all memory is equally near"
	}
	return ""
}

func (f numaFinding) line() (what, found, advice string) {
	if f.Nodes == 0 {
		return "NUMA nodes", "not known: no /sys/devices/system/node", f.Advice
	}
	return "NUMA nodes", fmt.Sprint(f.Nodes), f.Advice
}

type simdFinding struct {
	Level  string `json:"level"`
	Forced bool   `json:"forced"` // by WEFT_SIMD
	// MultipliesBFloat16: with --precision bf16 weights are rounded, and dense products take half the time
	MultipliesBFloat16 bool   `json:"multiplies_bfloat16"`
	Advice             string `json:"advice"`
}

func findSIMD() simdFinding {
	f := simdFinding{Level: kernel.SIMD(), Forced: os.Getenv("WEFT_SIMD") != "", MultipliesBFloat16: kernel.MultipliesBFloat16()}
	f.Advice = simdAdvice(f.Level, f.Forced)
	return f
}

func simdAdvice(level string, forced bool) string {
	switch {
	case forced:
		return "unset WEFT_SIMD for the best level of this processor"
	case level == "avx512":
		return "the fastest level"
	case level == "avx2":
		return "good; a processor with AVX-512 would be faster"
	}
	return "several times slower than AVX2: take another machine"
}

func (f simdFinding) line() (what, found, advice string) {
	found = f.Level + ", bf16 computed in float32"
	if f.MultipliesBFloat16 {
		found = f.Level + ", bf16 multiplied as it is"
	}
	if f.Forced {
		found += ", forced by WEFT_SIMD"
	}
	return "SIMD", found, f.Advice
}

type memoryFinding struct {
	Total     int64 `json:"total_bytes,omitempty"`
	Available int64 `json:"available_bytes,omitempty"`
	// Limit: of a control group, where it is less than the machine has
	Limit  int64  `json:"limit_bytes,omitempty"`
	Advice string `json:"advice"`
}

func findMemory(root string) memoryFinding {
	f := memoryFinding{Total: procBytes(root+"/proc/meminfo", "MemTotal"), Available: procBytes(root+"/proc/meminfo", "MemAvailable")}
	if limit := groupMemoryLimit(root); limit > 0 && (limit < f.Total || f.Total == 0) {
		f.Limit = limit
	}
	f.Advice = "--explain says what a run needs, --memory-limit caps it"
	return f
}

// usable is how many bytes there are to use, as far as is known.
func (f memoryFinding) usable() int64 {
	switch {
	case f.Limit > 0 && (f.Limit < f.Available || f.Available == 0):
		return f.Limit
	case f.Available > 0:
		return f.Available
	}
	return 1 << 30
}

func (f memoryFinding) line() (what, found, advice string) {
	found = "not known: no /proc/meminfo"
	if f.Total > 0 {
		found = fmt.Sprintf("%s, %s available", megabytes(f.Total), megabytes(f.Available))
	}
	if f.Limit > 0 {
		found += ", limited to " + megabytes(f.Limit)
	}
	return "memory", found, f.Advice
}

type hugePagesFinding struct {
	Setting string `json:"setting,omitempty"` // always, madvise or never
	Advice  string `json:"advice"`
}

// hugePagesFile says when the system backs memory with transparent huge pages.
const hugePagesFile = "kernel/mm/transparent_hugepage/enabled"

func findHugePages(root string) hugePagesFinding {
	f := hugePagesFinding{Setting: bracketed(systemFile(root, hugePagesFile))}
	f.Advice = hugePagesAdvice(f.Setting)
	return f
}

func hugePagesAdvice(setting string) string {
	switch setting {
	case "":
		return ""
	case "never":
		return "as root write madvise there: random rows are read faster"
	}
	return "weft asks for them: random rows are read faster"
}

func (f hugePagesFinding) line() (what, found, advice string) {
	switch f.Setting {
	case "":
		return "huge pages", "not known: no /sys/" + hugePagesFile, f.Advice
	case "never":
		return "huge pages", "never, in /sys/" + hugePagesFile, f.Advice
	}
	return "huge pages", f.Setting, f.Advice
}

// systemFile reads a file under /sys, "" where there is none.
func systemFile(root, name string) string {
	text, err := os.ReadFile(root + "/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// listLength counts the numbers in a list of the kernel's, such as "0-3,8": 5. It is 0 for what is no such
// list.
func listLength(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, badLo := strconv.Atoi(first)
		hi, badHi := strconv.Atoi(last)
		if badLo != nil || badHi != nil || lo > hi {
			return 0
		}
		n += hi - lo + 1
	}
	return n
}

// bracketed is the choice in a file such as "always [madvise] never", "" where none is marked.
func bracketed(choices string) string {
	_, rest, _ := strings.Cut(choices, "[")
	chosen, _, found := strings.Cut(rest, "]")
	if !found {
		return ""
	}
	return chosen
}
