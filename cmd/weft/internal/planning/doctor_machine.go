package planning

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/cores"
)

type buildFinding struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func (f buildFinding) describe() (found, advice string) { return f.Version + ", " + f.Go, "" }

type coresFinding struct {
	// Online is the number of cores of the machine, as the system counts them: hyperthreads count.
	Online    int    `json:"online"`
	Allowed   int    `json:"allowed"`                    // cores that this process may use
	Threads   int    `json:"threads"`                    // threads of a run without --threads
	PerCore   int    `json:"threads_per_core,omitempty"` // hyperthreads of a physical core
	Processor string `json:"processor,omitempty"`
	chosen    bool   // GOMAXPROCS has chosen Threads
}

func findCores(root string) coresFinding {
	allowed := runtime.NumCPU()
	return coresFinding{
		Online:    max(allowed, listLength(systemFile(root, "devices/system/cpu/online"))),
		Allowed:   allowed,
		Threads:   cores.Count(),
		PerCore:   listLength(systemFile(root, "devices/system/cpu/cpu0/topology/thread_siblings_list")),
		Processor: cli.ProcEntry(root+"/proc/cpuinfo", "model name"),
		chosen:    os.Getenv("GOMAXPROCS") != "",
	}
}

func (f coresFinding) describe() (found, advice string) {
	found = ui.Joined(fmt.Sprint(f.Online), f.Processor)
	switch {
	case f.Threads < f.Allowed && f.chosen:
		return found, fmt.Sprintf("a run takes %d of them: unset GOMAXPROCS for all", f.Threads)
	case f.Threads < f.Allowed:
		return found, fmt.Sprintf("a run takes %d of them, because of the quota", f.Threads)
	case f.Allowed < f.Online:
		return found, fmt.Sprintf("this process may use %d: ask for more to train faster", f.Allowed)
	case f.PerCore > 1:
		fewer := max(1, f.Threads/f.PerCore)
		return found, fmt.Sprintf("%d threads share a core: --threads %d may do as well", f.PerCore, fewer)
	}
	return found, "a run uses all; --threads N leaves some to others"
}

type quotaFinding struct {
	Cores   float64 `json:"cores,omitempty"` // how many cores' time; absent: no quota
	threads int     // threads of a run
}

// holds reports whether the quota slows the threads of a run down.
func (f quotaFinding) holds() bool { return f.Cores > 0 && f.Cores < float64(f.threads) }

func (f quotaFinding) describe() (found, advice string) {
	if f.Cores == 0 {
		return "none", "nothing limits the time on the cores"
	}
	found = fmt.Sprintf("time of %.3g cores", f.Cores)
	if f.holds() {
		fewer := max(1, int(f.Cores))
		return found, fmt.Sprintf("%d threads are held back: --threads %d wastes less", f.threads, fewer)
	}
	return found, "enough for every thread of a run"
}

type loadFinding struct {
	Average *float64 `json:"average_1_minute,omitempty"` // processes that run or want to run
	// State is "idle", "shared" (half of the cores are taken) or "busy" (all are taken).
	State string `json:"state,omitempty"`
}

func findLoad(root string, cores int) loadFinding {
	text, _ := os.ReadFile(root + "/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	average, err := strconv.ParseFloat(first, 64)
	switch {
	case err != nil:
		return loadFinding{}
	case average >= float64(cores):
		return loadFinding{&average, "busy"}
	case average >= float64(cores)/2:
		return loadFinding{&average, "shared"}
	}
	return loadFinding{&average, "idle"}
}

func (f loadFinding) describe() (found, advice string) {
	if f.Average == nil {
		return "not known: no /proc/loadavg", ""
	}
	return fmt.Sprintf("%.2f in the last minute", *f.Average), map[string]string{
		"busy":   "busy: a run has only a part of the rates below",
		"shared": "others take a part of the machine and of the rates",
		"idle":   "idle enough to be measured",
	}[f.State]
}

type numaFinding struct {
	Nodes int `json:"nodes,omitempty"`
}

// nodesFile lists the NUMA nodes that are online.
const nodesFile = "devices/system/node/online"

func (f numaFinding) describe() (found, advice string) {
	switch f.Nodes {
	case 0:
		return "not known: no /sys/devices/system/node", ""
	case 1:
		return "1", "all memory is equally near"
	}
	return fmt.Sprint(f.Nodes), "numactl --interleave=all weft …, or -N 0 -m 0 if one will do"
}

type simdFinding struct {
	Level  string `json:"level"`
	Forced bool   `json:"forced"` // WEFT_SIMD has chosen it
}

func (f simdFinding) describe() (found, advice string) {
	switch {
	case f.Forced:
		return f.Level + ", forced by WEFT_SIMD", "unset WEFT_SIMD for the best level of this processor"
	case f.Level == "avx512":
		return f.Level, "the fastest level"
	case f.Level == "avx2":
		return f.Level, "good; a processor with AVX-512 would be faster"
	}
	return f.Level, "several times slower than AVX2: take another machine"
}

// productsFinding says how products are made with --precision bf16.
type productsFinding struct {
	By     string `json:"by"`     // kernel.BFloat16Products
	Forced bool   `json:"forced"` // WEFT_BF16 has chosen it
}

func (f productsFinding) words() string {
	switch f.By {
	case "amx":
		return "AMX, with weights rounded to bf16"
	case "avx512_bf16":
		return "AVX512-BF16, with weights rounded to bf16"
	}
	return "float32, to which rows are converted"
}

func (f productsFinding) describe() (found, advice string) {
	switch {
	case f.Forced:
		return f.words() + ", forced by WEFT_BF16", "unset WEFT_BF16 for the best of this processor"
	case f.By == "f32":
		return f.words(), "--precision bf16 saves memory; products take the time of f32"
	}
	return f.words(), "products take less time with --precision bf16"
}

type memoryFinding struct {
	Total     int64 `json:"total_bytes,omitempty"`
	Available int64 `json:"available_bytes,omitempty"`
	// Limit is the limit of a control group, if it is less than the machine's memory.
	Limit int64 `json:"limit_bytes,omitempty"`
	taken int64 // how much of the limit this process has taken
}

func findMemory(root string) memoryFinding {
	const file = "/proc/meminfo"
	f := memoryFinding{
		Total:     cli.ProcBytes(root+file, "MemTotal"),
		Available: cli.ProcBytes(root+file, "MemAvailable"),
		taken:     cli.ProcBytes(root+"/proc/self/status", "VmRSS"),
	}
	if limit := cli.GroupMemoryLimit(root); limit > 0 && (limit < f.Total || f.Total == 0) {
		f.Limit = limit
	}
	return f
}

// usable is how many bytes can be used, as far as is known.
func (f memoryFinding) usable() int64 {
	switch left := max(f.Limit-f.taken, 0); {
	case f.Limit > 0 && (left < f.Available || f.Available == 0):
		return left
	case f.Available > 0:
		return f.Available
	}
	return 1 << 30
}

func (f memoryFinding) describe() (found, advice string) {
	found = "not known: no /proc/meminfo"
	if f.Total > 0 {
		found = fmt.Sprintf("%s, %s available", ui.Megabytes(f.Total), ui.Megabytes(f.Available))
	}
	found += ui.When(f.Limit > 0, ", limited to "+ui.Megabytes(f.Limit))
	return found, "--show-plan says what a run needs, --memory-limit caps it"
}

type hugePagesFinding struct {
	Setting string `json:"setting,omitempty"` // always, madvise or never
}

// hugePagesFile says when the system backs memory with transparent huge pages.
const hugePagesFile = "kernel/mm/transparent_hugepage/enabled"

func (f hugePagesFinding) describe() (found, advice string) {
	switch f.Setting {
	case "":
		return "not known: no /sys/" + hugePagesFile, ""
	case "never":
		return "never, in /sys/" + hugePagesFile, "as root write madvise there: random rows are read faster"
	}
	return f.Setting, "weft asks for them: random rows are read faster"
}

// systemFile reads a file under /sys; "": there is none.
func systemFile(root, name string) string {
	text, _ := os.ReadFile(root + "/sys/" + name)
	return strings.TrimSpace(string(text))
}

// listLength counts the numbers in a list of the kernel's: "0-3,8" has 5. It is 0 for text that is no such
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

// bracketed is the marked choice in a file such as "always [madvise] never"; "": none is marked.
func bracketed(choices string) string {
	_, rest, _ := strings.Cut(choices, "[")
	chosen, _, found := strings.Cut(rest, "]")
	return ui.When(found, chosen)
}
