// Package mpi connects the processes that an MPI launcher started. The tag mpi builds it with Open MPI, the
// tags mpi and mpich with MPICH. Without them it has no MPI, and Built returns false. One goroutine, locked
// to its thread, makes every MPI call.
package mpi

import (
	"os"
	"strconv"
	"strings"
)

// launch is what a launcher tells its processes in their environment.
type launch struct{ rank, ranks, local int }

// launched reads the environment through lookup. Slurm sets SLURM_PROCID and SLURM_NTASKS in batch scripts
// too, where nobody launched anything. So its variables count only together with those of PMIx.
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
		// Open MPI's mpirun
		{number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_LOCAL_SIZE")},
		// Hydra, and srun --mpi=pmi2 without the last variable
		{number("PMI_RANK"), number("PMI_SIZE"), number("MPI_LOCALNRANKS")},
		// Srun --mpi=pmix
		{number("PMIX_RANK"), number("SLURM_STEP_NUM_TASKS"), -1},
	} {
		if launcher.rank < 0 || launcher.ranks <= launcher.rank {
			continue
		}
		if launcher.local < 1 {
			tasks, _ := lookup("SLURM_STEP_TASKS_PER_NODE")
			launcher.local = slurmTasks(tasks, number("SLURM_NODEID"))
		}
		if launcher.local < 1 || launcher.local > launcher.ranks {
			launcher.local = launcher.ranks // as if on one machine: rather too few cores than too many
		}
		return launcher, true
	}
	return launch{0, 1, 1}, false
}

// slurmTasks is the number of tasks on one node of a list such as "2(x3),1": two on each of three nodes, then
// one. It is 0 if the list does not tell.
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

// otherPMI reports whether Slurm offers the processes PMI2 alone. Debian's Open MPI does not support PMI2,
// and would end them inside MPI_Init.
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

// LocalRanks is how many of these processes run on this machine and share its cores; 1 without a launcher.
func LocalRanks() int { l, _ := launched(os.LookupEnv); return l.local }

// LocalRank is this process's number among those on this machine, or its rank if the launcher does not tell;
// 0 without one.
func LocalRank() int { return localRank(os.LookupEnv) }

func localRank(lookup func(string) (string, bool)) int {
	l, found := launched(lookup)
	for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"} {
		text, _ := lookup(name)
		if n, err := strconv.Atoi(text); found && err == nil && n >= 0 {
			return n
		}
	}
	return l.rank
}
