// Package mpi connects the processes that an MPI launcher started. It is built over Open MPI with the tag
// mpi, over MPICH with the tags mpi and mpich, and without them not at all: Built says so. One goroutine,
// locked to its thread, makes every MPI call.
package mpi

import (
	"os"
	"strconv"
	"strings"
)

// launch is what a launcher says in the environment of the processes that it starts.
type launch struct{ rank, ranks, local int }

// launched reads the environment, of which lookup gives a variable. Slurm sets SLURM_PROCID and SLURM_NTASKS
// in batch scripts too, where nobody launched anything, so that its variables only count beside those of
// PMIx.
func launched(lookup func(string) (string, bool)) (l launch, found bool) {
	number := func(name string) int {
		text, _ := lookup(name)
		n, err := strconv.Atoi(text)
		if err != nil {
			return -1
		}
		return n
	}
	for _, launcher := range []launch{
		{number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_LOCAL_SIZE")}, // Open MPI's mpirun
		{number("PMI_RANK"), number("PMI_SIZE"), number("MPI_LOCALNRANKS")},                                    // Hydra; srun --mpi=pmi2 but for the last
		{number("PMIX_RANK"), number("SLURM_STEP_NUM_TASKS"), -1},                                              // srun --mpi=pmix
	} {
		if launcher.rank < 0 || launcher.ranks <= launcher.rank {
			continue
		}
		if launcher.local < 1 {
			tasks, _ := lookup("SLURM_STEP_TASKS_PER_NODE")
			launcher.local = slurmTasks(tasks, number("SLURM_NODEID"))
		}
		if launcher.local < 1 || launcher.local > launcher.ranks {
			launcher.local = launcher.ranks // as on one machine: rather too few cores than too many
		}
		return launcher, true
	}
	return launch{0, 1, 1}, false
}

// slurmTasks is the number of tasks on one node of a list such as "2(x3),1": two on each of three nodes, then
// one; 0 where it does not say.
func slurmTasks(list string, node int) int {
	for _, part := range strings.Split(list, ",") {
		count, repeat, repeated := strings.Cut(part, "(x")
		tasks, err := strconv.Atoi(count)
		nodes := 1
		if err == nil && repeated {
			nodes, err = strconv.Atoi(strings.TrimSuffix(repeat, ")"))
		}
		if err != nil || node < 0 {
			return 0
		}
		if node < nodes {
			return tasks
		}
		node -= nodes
	}
	return 0
}

// otherPMI reports whether Slurm offers the processes PMI2 alone, which Open MPI as Debian builds it does not
// speak: it would end them inside MPI_Init.
func otherPMI(lookup func(string) (string, bool), library string) bool {
	_, step := lookup("SLURM_STEP_NUM_TASKS")
	_, pmi := lookup("PMI_RANK")
	_, pmix := lookup("PMIX_RANK")
	return step && pmi && !pmix && !strings.Contains(library, "MPICH")
}

// Launched reports whether an MPI launcher started this process: mpirun, mpiexec, or srun with PMI2 or PMIx.
func Launched() bool { _, found := launched(os.LookupEnv); return found }

// Rank is this process's rank as the launcher gives it; 0 without one.
func Rank() int { l, _ := launched(os.LookupEnv); return l.rank }

// Ranks is the number of processes that the launcher started; 1 without one.
func Ranks() int { l, _ := launched(os.LookupEnv); return l.ranks }

// LocalRanks is how many of them run on this machine, and so share its cores; 1 without a launcher.
func LocalRanks() int { l, _ := launched(os.LookupEnv); return l.local }
