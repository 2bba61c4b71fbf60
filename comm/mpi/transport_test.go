package mpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"weft/comm"
	"weft/comm/commtest"
	"weft/internal/refusal"
	"weft/internal/require"
)

// The tests start this program again under mpirun. The first variable tells each rank what to do. The second
// is a folder that all share. A rank prints a line for each fact that it has checked.
const (
	roleVariable   = "WEFT_MPI_TEST"
	folderVariable = "WEFT_MPI_TEST_FOLDER"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" && Launched() {
		Exit(play(role))
	}
	os.Exit(m.Run())
}

// launchers are those of the MPIs that are tried, with their arguments, and what installs them.
var launchers = []struct {
	name      string
	arguments []string
	packages  string
}{
	{"mpirun.openmpi", []string{"--allow-run-as-root", "--oversubscribe"}, "openmpi-bin"},
	{"mpiexec.mpich", nil, "mpich"},
}

// ranks starts n ranks, and returns their output and exit status.
type ranks func(t *testing.T, n int, role string) (output string, status int)

// eachLauncher runs a test with the ranks of each launcher that is installed.
func eachLauncher(t *testing.T, test func(t *testing.T, launch ranks)) {
	t.Parallel()
	for _, launcher := range launchers {
		t.Run(launcher.name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(launcher.name)
			if err != nil {
				t.Skipf("no %s: apt-get install %s", launcher.name, launcher.packages)
			}
			test(t, func(t *testing.T, n int, role string) (string, int) {
				return launchRanks(t, append([]string{path}, launcher.arguments...), n, role)
			})
		})
	}
}

// launchRanks starts ranks by a command. A shell stands between the launcher and each rank.
func launchRanks(t *testing.T, command []string, n int, role string) (output string, status int) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	const hangs = 5 * time.Minute // a launcher whose ranks have ended may wait for ever; ranks take a second
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	command = append(command, "-n", strconv.Itoa(n), "sh", "-c", `"$0"; exit $?`, program)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, folderVariable+"="+t.TempDir())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the launcher ends the ranks
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func play(role string) int {
	if role == "late peer" {
		return playLate()
	}
	t, err := Start(0)
	if err != nil {
		fmt.Println("start:", err)
		return 1
	}
	rank := t.Rank()
	report := func(name string, err error) {
		if err != nil {
			fmt.Printf("rank %d: %s: FAILED: %v\n", rank, name, err)
			return
		}
		fmt.Printf("rank %d: %s: right\n", rank, name)
	}
	name, argument, _ := strings.Cut(role, "=")
	switch name {
	case "suite", "parts":
		if name == "parts" {
			partBytes = 1000
		}
		report("library", ofLauncher())
		commtest.RunAsRank(t, report)
	case "case":
		for _, testCase := range commtest.Cases() {
			if testCase.Name == argument {
				report(testCase.Name, testCase.Run(comm.New(t, testCase.Timeout)))
			}
		}
		if err := meet(t); err != nil {
			report("end", err)
		}
		return 3
	case "signals":
		report("signals", signals())
	case "stopped peer":
		if rank == 1 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				report("stop", err)
			}
			time.Sleep(time.Hour) // the signal may reach another thread a little later
		}
		if err := comm.New(t, 300*time.Millisecond).Close(); !errors.Is(err, comm.ErrTimeout) {
			report("stopped peer", fmt.Errorf("no timeout: %w", err))
		} else if err := t.Close(); !errors.Is(err, comm.ErrAborted) {
			report("stopped peer", fmt.Errorf("closed after an abort: %w", err))
		} else {
			report("stopped peer", nil)
		}
		return 3
	}
	report("close", comm.New(t, 0).Close())
	return 0
}

// ofLauncher: the library is that of the launcher, which is found above the shell.
func ofLauncher() error {
	library, err := Load()
	if err != nil {
		return err
	}
	wanted := map[launcher][3]string{
		byOpenMPI: {"orterun", "Open MPI v", "--mpi=pmix"},
		byPMI:     {"hydra_pmi_proxy", "MPICH ", "--mpi=pmi2"},
	}[launched(os.LookupEnv).by]
	program := filepath.Base(launcherProgram())
	if program != wanted[0] || !strings.HasPrefix(library.Name, wanted[1]) ||
		library.SrunOption != wanted[2] {
		return fmt.Errorf("%s started this process, and %+v is loaded, want %q", program, library, wanted)
	}
	if _, err := os.Stat(library.File); err != nil {
		return err
	}
	return nil
}

// meet waits until every rank has called it, without MPI, which is unusable by then. The launcher ends all
// ranks when the first one ends.
func meet(t comm.Transport) error {
	file := func(rank int) string { return filepath.Join(os.Getenv(folderVariable), strconv.Itoa(rank)) }
	if err := os.WriteFile(file(t.Rank()), nil, 0o600); err != nil {
		return err
	}
	for rank := 0; rank < t.Size(); {
		_, err := os.Stat(file(rank))
		switch {
		case err == nil:
			rank++
		case errors.Is(err, fs.ErrNotExist):
			time.Sleep(10 * time.Millisecond)
		default:
			return err
		}
	}
	return nil
}

// playLate: if a rank does not start MPI, the others wait until their deadline and no longer. Then the
// launcher ends that rank.
func playLate() int {
	if Rank() == 1 {
		time.Sleep(time.Hour)
		return 0
	}
	_, err := Start(300 * time.Millisecond)
	if !errors.Is(err, comm.ErrTimeout) {
		fmt.Println("start:", err)
		return 1
	}
	fmt.Printf("rank %d: late peer: right\n", Rank())
	return 3
}

// signals: signals that a program handles arrive, and a fault in Go is a panic.
func signals() error {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		arrived := make(chan os.Signal, 1)
		signal.Notify(arrived, s)
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			return err
		}
		<-arrived
		signal.Stop(arrived)
	}
	for _, address := range []uintptr{8, 1 << 30} {
		if !faults(address) {
			return fmt.Errorf("no panic from a fault at %#x", address)
		}
	}
	return nil
}

// faults reports whether reading an address that is not mapped panics.
func faults(address uintptr) (panicked bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { panicked = recover() != nil }()
	return **(**byte)(unsafe.Pointer(&address)) == 1 // an address that go vet cannot see through
}

// everyRank checks that every rank's output says "right" for each name.
func everyRank(t *testing.T, output string, n int, names ...string) {
	t.Helper()
	for _, name := range names {
		for rank := range n {
			if !strings.Contains(output, fmt.Sprintf("rank %d: %s: right\n", rank, name)) {
				t.Errorf("%s: nothing good from rank %d", name, rank)
			}
		}
	}
	if t.Failed() {
		t.Log(output)
	}
}

func TestSuite(t *testing.T) {
	names := []string{"library", "close"}
	for _, testCase := range commtest.Cases() {
		if !testCase.Ends {
			names = append(names, testCase.Name)
		}
	}
	eachLauncher(t, func(t *testing.T, launch ranks) {
		for _, role := range []string{"suite", "parts"} {
			t.Run(role, func(t *testing.T) {
				t.Parallel()
				output, status := launch(t, commtest.MaxRanks, role)
				everyRank(t, output, commtest.MaxRanks, names...)
				if status != 0 {
					t.Errorf("exit status %d", status)
				}
			})
		}
	})
}

func TestFailures(t *testing.T) {
	eachLauncher(t, func(t *testing.T, launch ranks) {
		for _, testCase := range commtest.Cases() {
			if testCase.Ends {
				t.Run(testCase.Name, func(t *testing.T) {
					t.Parallel()
					output, status := launch(t, testCase.Ranks, "case="+testCase.Name)
					everyRank(t, output, testCase.Ranks, testCase.Name)
					if status == 0 {
						t.Error("exit status 0 after an error")
					}
				})
			}
		}
	})
}

// TestRoles: signals arrive, and a peer that is stopped or late is a timeout of the others.
func TestRoles(t *testing.T) {
	eachLauncher(t, func(t *testing.T, launch ranks) {
		for role, c := range map[string]struct {
			ranks int // that say what they have found
			names []string
			fails bool
		}{
			"signals":      {2, []string{"signals", "close"}, false},
			"stopped peer": {1, []string{"stopped peer"}, true},
			"late peer":    {1, []string{"late peer"}, true},
		} {
			t.Run(role, func(t *testing.T) {
				output, status := launch(t, 2, role)
				everyRank(t, output, c.ranks, c.names...)
				if c.fails && status == 0 {
					t.Error("exit status 0")
				}
			})
		}
	})
}

func TestStartWithoutLauncher(t *testing.T) {
	if Launched() {
		t.Skip("these tests run under a launcher")
	}
	if _, err := Start(0); !refusal.Is(err) || strings.Contains(err.Error(), "\n") {
		t.Errorf("start: %v", err)
	}
}
