package planning

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
)

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
	switch {
	case f.Missing != "":
		return "not known: " + f.Missing, ""
	case f.Library == "":
		return "oneDNN is not linked", "apt-get install libdnnl-dev, then build again"
	}
	return "oneDNN, " + filepath.Base(f.Library), ""
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
	found = "no launcher"
	if f.Launcher != "" {
		found = cmp.Or(f.LauncherVersion, f.Launcher)
	}
	found += ", loads " + cmp.Or(f.LibraryVersion, "no library")
	switch {
	case f.Library == "" && f.Processes > 1:
		return found, "no library loads, weft refuses: weft version says why"
	case f.Library == "" && f.Launcher != "":
		return found, "several processes need its library: weft version says why"
	case f.Processes > 1:
		return found, ui.Counted(f.Processes, "rank", "ranks") + ", started by the launcher"
	case f.Launcher == "":
		return found, "no launcher for several processes: install openmpi-bin"
	}
	return found, "processes: mpirun -n 4 weft train --parallel graph=4 …"
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
	const apart = "no library of MPI loads: srun -n 1 -c CORES weft train …"
	switch {
	case f.Job != "":
		found = ui.Joined("job "+f.Job, ui.When(f.Tasks > 0, ui.Counted(f.Tasks, "task", "tasks")))
		advice = "with --signal=USR1@60 srun lets a run keep its results"
		if f.Tasks > 1 {
			advice = fmt.Sprintf("srun %s weft train --parallel graph=%d …", f.Connect, f.Tasks)
		}
	case f.Launcher != "":
		found = f.Launcher + ", not in a job"
		advice = fmt.Sprintf("srun -n 4 %s weft train --parallel graph=4 …", f.Connect)
	default:
		return "none", ""
	}
	if f.Connect == "" && (f.Job == "" || f.Tasks > 1) {
		advice = apart
	}
	return found, advice
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
