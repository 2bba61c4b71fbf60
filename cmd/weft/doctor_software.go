package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weft/comm/mpi"
	"weft/internal/datasets"
)

type denseFinding struct {
	Library string `json:"library,omitempty"` // the file of oneDNN
	Missing string `json:"not_known,omitempty"`
	Advice  string `json:"advice"`
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
	return denseFinding{Advice: "apt-get install libdnnl-dev, then build again"}
}

func (f denseFinding) line() (what, found, advice string) {
	switch {
	case f.Missing != "":
		found = "not known: " + f.Missing
	case f.Library == "":
		found = "oneDNN is not linked"
	default:
		found = "oneDNN, " + filepath.Base(f.Library)
	}
	return "dense products", found, f.Advice
}

type mpiFinding struct {
	Launcher        string `json:"launcher,omitempty"` // the path of mpirun or mpiexec
	LauncherVersion string `json:"launcher_version,omitempty"`
	Library         string `json:"library,omitempty"`         // the file of what loads
	LibraryVersion  string `json:"library_version,omitempty"` // its name and version
	NotLoaded       string `json:"not_loaded,omitempty"`      // why none is
	Processes       int    `json:"processes,omitempty"`       // that the launcher started with this one
	Advice          string `json:"advice"`
}

func findMPI() mpiFinding {
	f := mpiFinding{Launcher: mpi.Mpirun()}
	if f.Launcher != "" {
		f.LauncherVersion = launcherVersion(said(f.Launcher, "--version"))
	}
	if library, err := mpi.Load(); err != nil {
		f.NotLoaded = err.Error()
	} else {
		f.Library, f.LibraryVersion = library.File, library.Name
	}
	if mpi.Launched() {
		f.Processes = mpi.Ranks()
	}
	f.Advice = mpiAdvice(f)
	return f
}

func mpiAdvice(f mpiFinding) string {
	switch {
	case f.Library == "" && f.Processes > 1:
		return "no library loads, weft refuses: weft version says why"
	case f.Library == "" && f.Launcher != "":
		return "several processes need its library: weft version says why"
	case f.Processes > 1:
		return fmt.Sprintf("%s, started by the launcher", counted(f.Processes, "rank", "ranks"))
	case f.Launcher == "":
		return "no launcher for several processes: install openmpi-bin"
	}
	return "processes: mpirun -n 4 weft train --parallel graph=4 …"
}

func (f mpiFinding) line() (what, found, advice string) {
	found = "no launcher"
	if f.Launcher != "" {
		found = f.Launcher
		if f.LauncherVersion != "" {
			found = f.LauncherVersion
		}
	}
	return "MPI", found + ", loads " + cmp.Or(f.LibraryVersion, "no library"), f.Advice
}

// said is what a program prints on standard output, "" where it is missing, fails or takes long.
func said(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // a child of its own may keep the pipe open
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// launcherVersion is the line of a launcher's --version that says its name and version: the first of Open
// MPI's; MPICH's gives the version of its launcher, Hydra, further down.
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
	Connect  string `json:"connect,omitempty"` // the option of srun that fits the library of MPI that loads
	Advice   string `json:"advice"`
}

func findSlurm() slurmFinding {
	f := slurmFinding{Job: os.Getenv("SLURM_JOB_ID"), Tasks: environmentNumber("SLURM_NTASKS")}
	if path, err := exec.LookPath("srun"); err == nil {
		f.Launcher = path
	}
	f.Connect = connectingOption()
	f.Advice = slurmAdvice(f)
	return f
}

func slurmAdvice(f slurmFinding) string {
	switch {
	case f.Job != "" && f.Tasks > 1 && f.Connect != "":
		return fmt.Sprintf("srun %s weft train --parallel graph=%d …", f.Connect, f.Tasks)
	case f.Job != "" && f.Tasks > 1:
		return "no library of MPI loads: srun -n 1 -c CORES weft train …"
	case f.Job != "":
		return "with --signal=USR1@60 srun lets a run keep its results"
	case f.Launcher != "" && f.Connect != "":
		return fmt.Sprintf("srun -n 4 %s weft train --parallel graph=4 …", f.Connect)
	case f.Launcher != "":
		return "no library of MPI loads: srun -n 1 -c CORES weft train …"
	}
	return ""
}

// connectingOption is the option of srun by which the library of MPI that loads connects its tasks, "" where
// none loads.
func connectingOption() string {
	library, err := mpi.Load()
	if err != nil {
		return ""
	}
	return library.SrunOption
}

func (f slurmFinding) line() (what, found, advice string) {
	switch {
	case f.Job != "" && f.Tasks > 0:
		found = "job " + f.Job + ", " + counted(f.Tasks, "task", "tasks")
	case f.Job != "":
		found = "job " + f.Job
	case f.Launcher != "":
		found = f.Launcher + ", not in a job"
	default:
		found = "none"
	}
	return "Slurm", found, f.Advice
}

// environmentNumber is the number that a variable holds, 0 where it holds none.
func environmentNumber(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}

type indexFinding struct {
	Missing string `json:"needs,omitempty"` // absent: it is here
	Advice  string `json:"advice"`
}

func findPackageIndex() indexFinding {
	for _, d := range datasets.All() {
		if d.Name == "debian" && d.Missing() != "" {
			return indexFinding{d.Missing(), "to train on it: weft train debian"}
		}
	}
	return indexFinding{Advice: "weft train debian trains on it"}
}

func (f indexFinding) line() (what, found, advice string) {
	if f.Missing != "" {
		return "package index", "needs " + f.Missing, f.Advice
	}
	return "package index", "here", f.Advice
}

type datasetsFinding struct {
	Folder string `json:"folder,omitempty"` // WEFT_DATA
	Exists bool   `json:"exists"`
	Advice string `json:"advice"`
}

func findDatasets() datasetsFinding {
	folder := os.Getenv("WEFT_DATA")
	if folder == "" {
		return datasetsFinding{Advice: "weft datasets says which files it should hold"}
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return datasetsFinding{Folder: folder, Advice: "set it to the folder with their files"}
	}
	return datasetsFinding{filepath.Clean(folder), true, "weft datasets says which are there"}
}

func (f datasetsFinding) line() (what, found, advice string) {
	switch {
	case f.Folder == "":
		found = "WEFT_DATA is not set"
	case !f.Exists:
		found = "WEFT_DATA=" + f.Folder + " is no folder"
	default:
		found = f.Folder
	}
	return "published datasets", found, f.Advice
}
