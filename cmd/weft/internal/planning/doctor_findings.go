package planning

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/internal/cores"
)

// system is the machine, with what several lines are about.
type system struct {
	root   string // stands before the paths of files
	bytes  int    // over which rates are measured
	cores  coresFinding
	quota  quotaFinding
	load   loadFinding
	memory memoryFinding
	rates  func() [3]ratesFinding
}

func newSystem(root string, bytes int) *system {
	s := &system{root: root, bytes: bytes, cores: findCores(root), memory: findMemory(root)}
	s.quota = quotaFinding{cli.GroupQuota(root), s.cores.Threads}
	s.load = findLoad(root, s.cores.Online)
	s.rates = sync.OnceValue(s.findRates)
	return s
}

type buildFinding struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func (f buildFinding) describe() (found, advice string) { return f.Version + ", " + f.Go, "" }

type coresFinding struct {
	Online    int    `json:"online"`                     // as the system counts them: hyperthreads count
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
	takes, fewer := fmt.Sprintf("a run takes %d of them", f.Threads), max(1, f.Threads/max(1, f.PerCore))
	return ui.Joined(fmt.Sprint(f.Online), f.Processor), cmp.Or(
		ui.When(f.Threads < f.Allowed, takes+ui.When(f.chosen, ": unset GOMAXPROCS for all")+
			ui.When(!f.chosen, ", because of the quota")),
		ui.When(f.Allowed < f.Online,
			fmt.Sprintf("this process may use %d: ask for more to train faster", f.Allowed)),
		ui.When(f.PerCore > 1,
			fmt.Sprintf("%d threads share a core: --threads %d may do as well", f.PerCore, fewer)),
		"a run uses all; --threads N leaves some to others")
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
	held := fmt.Sprintf("%d threads are held back: --threads %d wastes less", f.threads, max(1, int(f.Cores)))
	return fmt.Sprintf("time of %.3g cores", f.Cores),
		cmp.Or(ui.When(f.holds(), held), "enough for every thread of a run")
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
	if err != nil {
		return loadFinding{}
	}
	return loadFinding{&average, cmp.Or(ui.When(average >= float64(cores), "busy"),
		ui.When(average >= float64(cores)/2, "shared"), "idle")}
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
	return cmp.Or(ui.When(f.Nodes == 0, "not known: no /sys/devices/system/node"), fmt.Sprint(f.Nodes)),
		ui.When(f.Nodes == 1, "all memory is equally near") +
			ui.When(f.Nodes > 1, "numactl --interleave=all weft …, or -N 0 -m 0 if one will do")
}

type simdFinding struct {
	Level  string `json:"level"`
	Forced bool   `json:"forced"` // WEFT_SIMD has chosen it
}

func (f simdFinding) describe() (found, advice string) {
	return f.Level + ui.When(f.Forced, ", forced by WEFT_SIMD"), cmp.Or(
		ui.When(f.Forced, "unset WEFT_SIMD for the best level of this processor"),
		ui.When(f.Level == "avx512", "the fastest level"),
		ui.When(f.Level == "avx2", "good; a processor with AVX-512 would be faster"),
		"several times slower than AVX2: take another machine")
}

// productsFinding says how products are made with --precision bf16.
type productsFinding struct {
	By     string `json:"by"`     // kernel.BFloat16Products
	Forced bool   `json:"forced"` // WEFT_BF16 has chosen it
}

func (f productsFinding) words() string {
	return cmp.Or(ui.When(f.By == "amx", "AMX, with weights rounded to bf16"),
		ui.When(f.By == "avx512_bf16", "AVX512-BF16, with weights rounded to bf16"),
		"float32, to which rows are converted")
}

func (f productsFinding) describe() (found, advice string) {
	return f.words() + ui.When(f.Forced, ", forced by WEFT_BF16"), cmp.Or(
		ui.When(f.Forced, "unset WEFT_BF16 for the best of this processor"),
		ui.When(f.By == "f32", "--precision bf16 saves memory; products take the time of f32"),
		"products take less time with --precision bf16")
}

type memoryFinding struct {
	Total     int64 `json:"total_bytes,omitempty"`
	Available int64 `json:"available_bytes,omitempty"`
	Limit     int64 `json:"limit_bytes,omitempty"` // of a control group, if it is less than Total
	taken     int64 // how much of the limit this process has taken
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
	left := max(f.Limit-f.taken, 0)
	if f.Limit > 0 && (left < f.Available || f.Available == 0) {
		return left
	}
	return cmp.Or(max(f.Available, 0), 1<<30)
}

func (f memoryFinding) describe() (found, advice string) {
	found = "not known: no /proc/meminfo"
	if f.Total > 0 {
		found = fmt.Sprintf("%s, %s available", ui.Megabytes(f.Total), ui.Megabytes(f.Available))
	}
	return found + ui.When(f.Limit > 0, ", limited to "+ui.Megabytes(f.Limit)),
		"--show-plan says what a run needs, --memory-limit caps it"
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

type denseFinding struct {
	Library string `json:"library,omitempty"` // the file of oneDNN
	Missing string `json:"not_known,omitempty"`
}

// findDenseLibrary looks for oneDNN among the libraries mapped into this process.
func findDenseLibrary() denseFinding {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return denseFinding{Missing: err.Error()}
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.Index(line, "/"); i >= 0 && strings.Contains(line[i:], "libdnnl.so") {
			return denseFinding{Library: strings.TrimSpace(line[i:])}
		}
	}
	return denseFinding{}
}

func (f denseFinding) describe() (found, advice string) {
	return cmp.Or(ui.When(f.Missing != "", "not known: "+f.Missing),
			ui.When(f.Library != "", "oneDNN, "+filepath.Base(f.Library)), "oneDNN is not linked"),
		ui.When(f.Missing+f.Library == "", "apt-get install libdnnl-dev, then build again")
}

type mpiFinding struct {
	Launcher        string `json:"launcher,omitempty"` // the path of mpirun or mpiexec
	LauncherVersion string `json:"launcher_version,omitempty"`
	Library         string `json:"library,omitempty"`         // the file of the library that loads
	LibraryVersion  string `json:"library_version,omitempty"` // its name and version
	NotLoaded       string `json:"not_loaded,omitempty"`      // why no library loads
	Processes       int    `json:"processes,omitempty"`       // that the launcher started, with this one
}

func findMPI() mpiFinding {
	f := mpiFinding{Launcher: mpi.Mpirun()}
	if f.Launcher != "" {
		f.LauncherVersion = launcherVersion(stdout(f.Launcher, "--version"))
	}
	if library, err := mpi.Load(); err != nil {
		f.NotLoaded = err.Error()
	} else {
		f.Library, f.LibraryVersion = library.File, library.Name
	}
	if mpi.Launched() {
		f.Processes = mpi.Ranks()
	}
	return f
}

func (f mpiFinding) describe() (found, advice string) {
	loads, launched := f.Library != "", f.Processes > 1
	found = cmp.Or(f.LauncherVersion, f.Launcher, "no launcher")
	return found + ", loads " + cmp.Or(f.LibraryVersion, "no library"), cmp.Or(
		ui.When(!loads && launched, "no library loads, weft refuses: weft version says why"),
		ui.When(!loads && f.Launcher != "", "several processes need its library: weft version says why"),
		ui.When(launched, ui.Counted(f.Processes, "rank", "ranks")+", started by the launcher"),
		ui.When(f.Launcher == "", "no launcher for several processes: install openmpi-bin"),
		"processes: mpirun -n 4 weft train --parallel graph=4 …")
}

// stdout returns what a program prints on standard output; "": it is missing, fails or takes long.
func stdout(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // a child of its own may keep the pipe open
	out, err := cmd.Output()
	return ui.When(err == nil, strings.TrimSpace(string(out)))
}

// launcherVersion is the line of a launcher's --version with its name and version. Open MPI has it first.
// MPICH gives the version of its launcher, Hydra, further down.
func launcherVersion(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	first = strings.TrimSpace(first)
	for line := range strings.Lines(text) {
		if name, v, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "Version" {
			return strings.TrimSuffix(first, " build details:") + " " + strings.TrimSpace(v)
		}
	}
	return first
}

type slurmFinding struct {
	Launcher string `json:"launcher,omitempty"` // the path of srun
	Job      string `json:"job,omitempty"`
	Tasks    int    `json:"tasks,omitempty"`   // of the job
	Connect  string `json:"connect,omitempty"` // the option of srun that fits the MPI library that loads
}

func findSlurm() slurmFinding {
	path, err := exec.LookPath("srun")
	return slurmFinding{
		Launcher: ui.When(err == nil, path), Job: os.Getenv("SLURM_JOB_ID"),
		Tasks: cli.EnvironmentNumber("SLURM_NTASKS"), Connect: cli.ConnectingOption(),
	}
}

func (f slurmFinding) describe() (found, advice string) {
	if f.Job == "" && f.Launcher == "" {
		return "none", ""
	}
	job, tasks := f.Job != "", cmp.Or(ui.When(f.Job == "", "4"), fmt.Sprint(f.Tasks))
	found = cmp.Or(ui.When(!job, f.Launcher+", not in a job"),
		ui.Joined("job "+f.Job, ui.When(f.Tasks > 0, ui.Counted(f.Tasks, "task", "tasks"))))
	return found, cmp.Or(
		ui.When(job && f.Tasks <= 1, "with --signal=USR1@60 srun lets a run keep its results"),
		ui.When(f.Connect == "", "no library of MPI loads: srun -n 1 -c CORES weft train …"),
		fmt.Sprintf("srun %s%s weft train --parallel graph=%s …", ui.When(!job, "-n 4 "), f.Connect, tasks))
}

type indexFinding struct {
	Missing string `json:"needs,omitempty"` // what is missing; absent: nothing
}

func (f indexFinding) describe() (found, advice string) {
	if f.Missing != "" {
		return "needs " + f.Missing, "to train on it: weft train debian"
	}
	return "here", "weft train debian trains on it"
}

type datasetsFinding struct {
	Folder string `json:"folder,omitempty"` // WEFT_DATA
	Exists bool   `json:"exists"`
}

func findDatasets() datasetsFinding {
	folder := os.Getenv("WEFT_DATA")
	if !cli.IsFolder(folder) {
		return datasetsFinding{Folder: folder}
	}
	return datasetsFinding{filepath.Clean(folder), true}
}

func (f datasetsFinding) describe() (found, advice string) {
	switch {
	case f.Folder == "":
		return "WEFT_DATA is not set", "weft datasets says which files it should hold"
	case !f.Exists:
		return "WEFT_DATA=" + f.Folder + " is no folder", "set it to the folder with their files"
	}
	return f.Folder, "weft datasets says which are there"
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
