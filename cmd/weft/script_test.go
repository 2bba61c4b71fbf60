package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/training"
	"weft/cmd/weft/internal/ui"
	"weft/device/devicetest"
	"weft/kernel"
	"weft/train"
	"weft/train/rundir"
)

func TestMain(m *testing.M) {
	ui.Silence = math.MaxInt64
	testscript.Main(m, map[string]func(){"weft": main, "stuck": stuck, "weft-refuses": refuses})
}

// A process that gets a signal before main, as WEFT_TEST_EARLY_SIGNAL says.
func init() {
	if number, err := strconv.Atoi(os.Getenv("WEFT_TEST_EARLY_SIGNAL")); err == nil {
		if err := syscall.Kill(os.Getpid(), syscall.Signal(number)); err != nil {
			panic(err)
		}
	}
}

// stuck is a run on a terminal that never ends its epoch, and gets two interrupts.
func stuck() {
	dir, err := rundir.New("run-that-hangs", time.Now(),
		&train.Job{Dataset: "g", Options: train.Defaults()}, "", "g")
	if err != nil {
		panic(err)
	}
	p := &ui.Progress{LiveLine: ui.LiveLine{Out: os.Stdout, Width: func() int { return 20 }}, Clock: time.Now}
	interrupt := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			panic(err)
		}
	}
	var made atomic.Pointer[rundir.Dir]
	made.Store(dir)
	ctx, _ := training.UntilStopped(context.Background(), cli.Alone(), &made, "", p)
	p.Epoch(train.Epoch{Epoch: 1, Epochs: 2})
	interrupt()
	<-ctx.Done()
	p.Epoch(train.Epoch{Epoch: 2, Epochs: 2})
	time.Sleep(cli.SameRequest + time.Second/10) // what comes sooner is the same interrupt
	interrupt()
	select {}
}

// TestScripts runs the command as a user would: each file below testdata/script is a session.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			r := new(refuser)
			env.Values[refuserKey] = r
			env.Defer(func() {
				if err := r.end(); err != nil {
					t.Errorf("weft-refuses: %v", err)
				}
			})
			env.Setenv("WEFT_CACHE", env.WorkDir+"/cache")
			env.Setenv("WEFT_DATA", "")
			env.Setenv("GOGC", os.Getenv("GOGC")) // as make test sets it
			if !kernel.MultipliesBFloat16() {
				// Products are small here: code for later processors takes oneDNN a quarter of the time
				// of a run to generate. Where it multiplies BFloat16 the sessions see that.
				env.Setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
			}
			for name, folder := range map[string]string{
				"PYG": "../../graph/pyg/testdata", "OGB": "../../graph/ogb/testdata",
				"STORED": "testdata/stored",
			} {
				path, err := filepath.Abs(folder)
				if err != nil {
					return err
				}
				env.Setenv(name, path)
			}
			env.Setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
			env.Setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
			env.Setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")
			// Once one rank has ended, the others may say nothing more
			env.Setenv("OMPI_MCA_odls_base_sigkill_timeout", "0")
			env.Setenv("MPIRUN", launcher())
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "mpi":
				return launcher() != "", nil
			case "hangup": // is not ignored, as it is by nohup
				return !signal.Ignored(syscall.SIGHUP), nil
			case "interrupt": // is not ignored, as it is in the background of a script
				return !signal.Ignored(syscall.SIGINT), nil
			case "namespaces": // of users may be made
				return exec.Command("unshare", "-Ur", "true").Run() == nil, nil
			case "avx2": // or better
				return kernel.SIMD() != "portable", nil
			case "bf16": // is multiplied
				return kernel.MultipliesBFloat16(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"refused": refused, "relabel": relabel, "cp-store": copyStore, "truncate": truncate,
			"prefix-weights": prefixWeights, "write-weights": writeWeights,
			"same-losses": sameLosses, "same-rows": sameRows, "near-arrays": nearArrays,
			"near-numbers": nearNumbers, "planned": plannedAsRun, "measured": measuredAsRun,
			"rename-types": renameTypes,
			"replace":      replace, "tame": tame, "unread": unread,
			"shows": shows, "early-interrupt": earlyInterrupt, "traced": traced, "dgl-files": dglFiles,
			"card": card,
		},
	})
}

// card has weft find a card, whose threads run on the CPU.
func card(ts *testscript.TestScript, _ bool, _ []string) {
	library, err := devicetest.Build()
	ts.Check(err)
	ts.Setenv("WEFT_CUDA", library)
}

// answer is what a command came to.
type answer struct {
	Status         int
	Stdout, Stderr string
}

// refuses runs the commands whose arguments come on standard input. A command that is refused has done
// nothing yet, so that one process can run many.
func refuses() {
	prepare()
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var args []string
		if err := requests.Decode(&args); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		os.Args = append([]string{"weft"}, args...)
		os.Stdout, os.Stderr = memoryFile(), memoryFile()
		a := answer{Status: run(), Stdout: content(os.Stdout), Stderr: content(os.Stderr)}
		if err := answers.Encode(a); err != nil {
			panic(err)
		}
	}
}

// memoryFile is an empty file in memory.
func memoryFile() *os.File {
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), "output")
}

// content is what was written to a file in memory, which is closed.
func content(f *os.File) string {
	_, err := f.Seek(0, io.SeekStart)
	text, readErr := io.ReadAll(f)
	if err := errors.Join(err, readErr, f.Close()); err != nil {
		panic(err)
	}
	return string(text)
}

// refuser is a process of a script that runs refuses.
type refuser struct {
	process  *exec.Cmd // nil: none is there
	requests io.WriteCloser
	answers  *json.Decoder
}

const refuserKey = "refuser"

// run runs a command in the process. Where the script has changed its environment, to which the folder
// belongs, another process begins.
func (r *refuser) run(ts *testscript.TestScript, args []string) (a answer) {
	ts.Check(ts.Exec("env", "-0"))
	env := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\x00"), "\x00")
	if r.process == nil || !slices.Equal(env, r.process.Env) {
		ts.Check(r.end())
		r.process = exec.Command("weft-refuses")
		r.process.Dir, r.process.Env, r.process.Stderr = ts.MkAbs("."), env, os.Stderr
		var err error
		r.requests, err = r.process.StdinPipe()
		ts.Check(err)
		stdout, err := r.process.StdoutPipe()
		ts.Check(err)
		r.answers = json.NewDecoder(stdout)
		ts.Check(r.process.Start())
	}
	ts.Check(json.NewEncoder(r.requests).Encode(args))
	ts.Check(r.answers.Decode(&a))
	return a
}

// end ends the process, if there is one.
func (r *refuser) end() error {
	if r.process == nil {
		return nil
	}
	return errors.Join(r.requests.Close(), r.process.Wait())
}

// refused runs weft, as in "refused 'unknown flag' train --nosuch": it must exit with status 2, print nothing
// on standard output, and on standard error one line that contains the text.
func refused(ts *testscript.TestScript, _ bool, args []string) {
	want, args := args[0], args[1:]
	a := ts.Value(refuserKey).(*refuser).run(ts, args)
	switch {
	case a.Status != cli.ExitRefused:
		ts.Fatalf("weft %q: exit status %d, want %d: %s", args, a.Status, cli.ExitRefused, a.Stderr)
	case strings.Count(a.Stderr, "\n") != 1 || !strings.HasPrefix(a.Stderr, "weft: ") ||
		!strings.Contains(a.Stderr, want):
		ts.Fatalf("weft %q said %q; want one line with %q", args, a.Stderr, want)
	case a.Stdout != "":
		ts.Fatalf("weft %q printed %q", args, a.Stdout)
	}
}

// launcher is the mpirun of Open MPI, or another's where there is none, "" where no MPI is installed.
func launcher() string {
	for _, name := range []string{"mpirun.openmpi", "mpirun", "mpiexec"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
