// Package mpi connects the processes that an MPI launcher started. To build it no MPI is needed: when it
// finds a launcher, it loads that launcher's library, Open MPI or MPICH. One goroutine, locked to its thread,
// makes every MPI call. Only the command imports it. Other packages take a comm.Transport.
package mpi

import (
	"os"
	"strconv"
	"strings"
)

// launch is what a launcher tells its processes in their environment.
type launch struct {
	rank, ranks, local int
	by                 launcher
}

// launcher is the program that connects the processes.
type launcher int

const (
	nobody    launcher = iota
	byOpenMPI          // its mpirun
	byPMI              // MPICH's mpiexec, or srun --mpi=pmi2
	byPMIx             // srun --mpi=pmix
)

// launched reads the environment through lookup. Slurm sets SLURM_PROCID and SLURM_NTASKS in batch scripts,
// too, where nobody launched anything. So these count only together with the variables of PMIx.
func launched(lookup func(string) (string, bool)) launch {
	number := func(name string) int {
		text, _ := lookup(name)
		n, err := strconv.Atoi(text)
		if err != nil {
			return -1
		}
		return n
	}
	for _, found := range []launch{
		// Open MPI's mpirun
		{
			number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"),
			number("OMPI_COMM_WORLD_LOCAL_SIZE"), byOpenMPI,
		},
		// Hydra, and srun --mpi=pmi2 without the last variable
		{number("PMI_RANK"), number("PMI_SIZE"), number("MPI_LOCALNRANKS"), byPMI},
		// Srun --mpi=pmix
		{number("PMIX_RANK"), number("SLURM_STEP_NUM_TASKS"), -1, byPMIx},
	} {
		if found.rank < 0 || found.ranks <= found.rank {
			continue
		}
		if found.local < 1 {
			tasks, _ := lookup("SLURM_STEP_TASKS_PER_NODE")
			found.local = slurmTasks(tasks, number("SLURM_NODEID"))
		}
		if found.local < 1 || found.local > found.ranks {
			found.local = found.ranks // as if all were on one machine: too few cores are better than too many
		}
		return found
	}
	return launch{0, 1, 1, nobody}
}

// slurmTasks is the number of tasks on one node, from a list such as "2(x3),1": two on each of three nodes,
// then one. It is 0 if the list does not tell.
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

// Launched reports whether an MPI launcher started this process: mpirun, mpiexec, or srun with PMI2 or PMIx.
func Launched() bool { return launched(os.LookupEnv).by != nobody }

// Rank is this process's rank as the launcher gives it; 0 without one.
func Rank() int { return launched(os.LookupEnv).rank }

// Ranks is the number of processes that the launcher started; 1 without one.
func Ranks() int { return launched(os.LookupEnv).ranks }

// LocalRanks is how many of these processes run on this machine and share its cores; 1 without a launcher.
func LocalRanks() int { return launched(os.LookupEnv).local }

// LocalRank is this process's number among those on this machine, or its rank if the launcher does not tell.
// It is 0 without a launcher.
func LocalRank() int { return localRank(os.LookupEnv) }

func localRank(lookup func(string) (string, bool)) int {
	l := launched(lookup)
	for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"} {
		text, _ := lookup(name)
		if n, err := strconv.Atoi(text); l.by != nobody && err == nil && n >= 0 {
			return n
		}
	}
	return l.rank
}
