package mpi

import (
	"maps"
	"testing"
)

func TestLaunched(t *testing.T) {
	type environment map[string]string
	slurm := environment{
		"SLURM_JOB_ID": "7", "SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_NPROCS": "8",
		"SLURM_NODEID": "1", "SLURM_TASKS_PER_NODE": "2(x4)",
	}
	step := environment{
		"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "6",
		"SLURM_STEP_TASKS_PER_NODE": "2(x2),1(x2)",
	}
	with := func(es ...environment) environment {
		all := environment{}
		for _, e := range es {
			maps.Copy(all, e)
		}
		return all
	}
	for _, c := range []struct {
		name string
		env  environment
		want launch
	}{
		{"nothing", nil, launch{0, 1, 1, nobody}},
		{"Open MPI", environment{
			"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
			"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_RANK": "3",
		}, launch{3, 4, 2, byOpenMPI}},
		{"Open MPI in a Slurm job", with(slurm, environment{
			"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
		}), launch{0, 3, 3, byOpenMPI}},
		{
			"one rank",
			environment{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
			launch{0, 1, 1, byOpenMPI},
		},
		{"Hydra", environment{
			"PMI_RANK": "1", "PMI_SIZE": "5", "MPI_LOCALNRANKS": "3",
			"MPI_LOCALRANKID": "1",
		}, launch{1, 5, 3, byPMI}},
		{
			"PMI without a number of local ranks",
			environment{"PMI_RANK": "1", "PMI_SIZE": "5"},
			launch{1, 5, 5, byPMI},
		},
		{"Slurm batch script", slurm, launch{0, 1, 1, nobody}},
		{"srun --mpi=none", with(slurm, step), launch{0, 1, 1, nobody}},
		{
			"srun --mpi=pmi2", with(slurm, step, environment{"PMI_RANK": "4", "PMI_SIZE": "6"}),
			launch{4, 6, 2, byPMI},
		},
		{
			"srun --mpi=pmix",
			with(slurm, step, environment{"PMIX_RANK": "4", "PMIX_NAMESPACE": "slurm.pmix.7.0"}),
			launch{4, 6, 2, byPMIx},
		},
		{
			"the last node", with(slurm, step, environment{"PMIX_RANK": "5", "SLURM_NODEID": "3"}),
			launch{5, 6, 1, byPMIx},
		},
		{"not numbers", environment{
			"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "", "PMI_RANK": "9",
			"PMI_SIZE": "4",
		}, launch{0, 1, 1, nobody}},
	} {
		got := launched(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSlurmTasks(t *testing.T) {
	for _, c := range []struct {
		list       string
		node, want int
	}{
		{"4", 0, 4},
		{"2,3", 1, 3},
		{"2(x3),1", 2, 2},
		{"2(x3),1", 3, 1},
		{"2(x3),1", 4, 0},
		{"", 0, 0},
		{"2(y3)", 0, 0},
		{"2(x", 0, 0},
		{"2", -1, 0},
	} {
		if got := slurmTasks(c.list, c.node); got != c.want {
			t.Errorf("%q, node %d: %d, want %d", c.list, c.node, got, c.want)
		}
	}
}

// TestLocalRank: the number on this machine counts under a launcher only; without it the rank does.
func TestLocalRank(t *testing.T) {
	for _, c := range []struct {
		environment map[string]string
		want        int
	}{
		{nil, 0},
		{map[string]string{"SLURM_LOCALID": "1"}, 0}, // a batch script
		{map[string]string{
			"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
			"OMPI_COMM_WORLD_LOCAL_RANK": "1",
		}, 1},
		{map[string]string{"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, 0},
		{map[string]string{"PMIX_RANK": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}, 1},
		{map[string]string{"PMI_RANK": "2", "PMI_SIZE": "4"}, 2},
	} {
		got := localRank(func(name string) (string, bool) {
			text, found := c.environment[name]
			return text, found
		})
		if got != c.want {
			t.Errorf("%v: %d, want %d", c.environment, got, c.want)
		}
	}
}
