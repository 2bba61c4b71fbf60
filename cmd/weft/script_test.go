package main

import (
	"bytes"
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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/training"
	"weft/cmd/weft/internal/ui"
	"weft/comm"
	"weft/device/devicetest"
	"weft/graph"
	"weft/internal/npy"
	"weft/internal/safetensors"
	"weft/internal/trace/tracetest"
	"weft/kernel"
	"weft/train"
	"weft/train/metric"
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
				"PPI":    "../../graph/ppi/testdata",
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
			"prefix-weights": prefixWeights,
			"same-losses":    sameLosses, "same-rows": sameRows, "near-arrays": nearArrays,
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
		said, err := r.process.StdoutPipe()
		ts.Check(err)
		r.answers = json.NewDecoder(said)
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

// sameLosses compares the losses of two runs by what --json printed, as in "same-losses 1e-5 one.json
// three.json": all may differ by so much of themselves. With 0 they must have the same bits, and so must the
// bytes that were sent.
func sameLosses(ts *testscript.TestScript, negated bool, args []string) {
	tolerance, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	var runs [2]rundir.Summary
	for i, name := range args[1:] {
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &runs[i]))
	}
	a, b := runs[0].Losses, runs[1].Losses
	same := len(a) == len(b) && len(a) > 0
	for i := 0; same && i < len(a); i++ {
		same = math.Abs(float64(a[i]-b[i])) <= tolerance*math.Abs(float64(a[i]))
	}
	if tolerance == 0 {
		same = same && runs[0].Communication == runs[1].Communication &&
			slices.Equal(runs[0].SentBytes, runs[1].SentBytes)
	}
	if same == negated {
		ts.Fatalf("same within %v: %v; losses %v and %v", tolerance, same, a, b)
	}
}

// plannedAsRun holds what plan --json printed to what train --json did on one of the meshes, as in "planned
// plan.json run.json": bytes sent and memory.
func plannedAsRun(ts *testscript.TestScript, negated bool, args []string) {
	var (
		plan struct {
			Meshes []struct {
				Parallel        string
				PeakTensorBytes int64 `json:"peak_tensor_bytes"`
				SentBytes       int64 `json:"sent_bytes"`
			}
		}
		run rundir.Summary
	)
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &plan))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &run))
	sent := int64(0)
	for _, bytes := range run.SentBytes {
		sent += bytes
	}
	same := false
	for _, m := range plan.Meshes {
		same = same || m.Parallel == run.Parallel && m.SentBytes == sent &&
			m.PeakTensorBytes == slices.Max(run.PeakTensorBytes)
	}
	if same == negated {
		ts.Fatalf("planned as run: %v; %+v, sent %d and took %v", same, plan.Meshes, sent,
			run.PeakTensorBytes)
	}
}

// measuredAsRun holds what train --json printed against evaluate --json, as in "measured run.json
// evaluated.json": validation and test vertices have the same metric, validation and test edges all the same.
func measuredAsRun(ts *testscript.TestScript, negated bool, args []string) {
	var (
		run      rundir.Summary
		measures map[string]map[string]any
	)
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &run))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &measures))
	val, test := measures["val"][run.Metric], measures["test"][run.Metric]
	if l := run.Links; l != nil {
		for name := range l.Test {
			for part, want := range map[string]metric.Number{"val": l.Val[name], "test": l.Test[name]} {
				x, there := measures[part][name].(float64)
				if there == math.IsNaN(float64(want)) || there && x != float64(want) {
					ts.Fatalf("%s of %s: evaluated %v, the run has %v", name, part,
						measures[part][name], want)
				}
			}
		}
		return
	}
	if same := val == float64(run.Val) && test == float64(run.Test); same == negated {
		ts.Fatalf("the same measures: %v; %v and %v, evaluated %v and %v", same, run.Val, run.Test, val, test)
	}
}

// shows holds what weft printed last to numbers of a JSON file, as in "shows run.json '^test +{test%} %$'".
// A place in braces stands for the number there, or with a % behind it for a share in percent. Places are
// keys and numbers of entries, as in {links.test.mrr%} or {tests.0}. With a third argument it reads that
// file.
func shows(ts *testscript.TestScript, negated bool, args []string) {
	var known any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &known))
	pattern := regexp.MustCompile(`\{[a-z@0-9_.-]+%?\}`).ReplaceAllStringFunc(args[1],
		func(place string) string {
			place, share := strings.CutSuffix(strings.Trim(place, "{}"), "%")
			at := known
			for key := range strings.SplitSeq(place, ".") {
				switch of := at.(type) {
				case map[string]any:
					at = of[key]
				case []any:
					k, err := strconv.Atoi(key)
					ts.Check(err)
					at = of[k]
				}
			}
			x, is := at.(float64)
			switch {
			case !is:
				ts.Fatalf("%s has no number at %s", args[0], place)
			case share:
				return regexp.QuoteMeta(fmt.Sprintf("%.2f", 100*x))
			}
			return regexp.QuoteMeta(strconv.FormatFloat(x, 'f', -1, 64))
		})
	text := "stdout"
	if len(args) > 2 {
		text = args[2]
	}
	if found := regexp.MustCompile("(?m)" + pattern).MatchString(ts.ReadFile(text)); found == negated {
		ts.Fatalf("%s has %q: %v\n%s", text, pattern, found, ts.ReadFile(text))
	}
}

// sameRows holds the rows of an array to those of another that a list names, as in "same-rows all.npy
// some.npy ids.npy": they have the same bits.
func sameRows(ts *testscript.TestScript, negated bool, args []string) {
	of, named := readArray(ts, args[0]), readArray(ts, args[1])
	all, some := floats(ts, of), floats(ts, named)
	ids, err := readArray(ts, args[2]).Int64s()
	same, columns := err == nil && named.Shape[0] == len(ids) && len(ids) > 0, of.Shape[1]
	for i := 0; same && i < len(ids); i++ {
		v := int(ids[i])
		same = slices.Equal(some[i*columns:(i+1)*columns], all[v*columns:(v+1)*columns])
	}
	if same == negated {
		ts.Fatalf("the rows %v are the same: %v", ids, same)
	}
}

// nearArrays compares two arrays, as in "near-arrays 1e-6 one.npy other.npy": each number but for so much of
// the largest.
func nearArrays(ts *testscript.TestScript, negated bool, args []string) {
	tolerance, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	a, b, largest := floats(ts, readArray(ts, args[1])), floats(ts, readArray(ts, args[2])), 0.
	for _, x := range a {
		largest = max(largest, math.Abs(float64(x)))
	}
	near := len(a) == len(b) && len(a) > 0
	for i := 0; near && i < len(a); i++ {
		near = math.Abs(float64(a[i]-b[i])) <= tolerance*largest
	}
	if near == negated {
		ts.Fatalf("near: %v; %v and %v", near, a, b)
	}
}

// nearNumbers compares the numbers in two texts, as in "near-numbers 1e-6 one.json other.json": each but for
// so much. What is between them is the same.
func nearNumbers(ts *testscript.TestScript, negated bool, args []string) {
	tolerance, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	number := regexp.MustCompile(`\d+(\.\d+)?(e-?\d+)?`)
	a, b := ts.ReadFile(args[1]), ts.ReadFile(args[2])
	near := number.ReplaceAllString(a, "") == number.ReplaceAllString(b, "")
	of, others := number.FindAllString(a, -1), number.FindAllString(b, -1)
	for i := 0; near && i < len(of); i++ {
		x, err := strconv.ParseFloat(of[i], 64)
		ts.Check(err)
		y, err := strconv.ParseFloat(others[i], 64)
		ts.Check(err)
		near = math.Abs(x-y) <= tolerance
	}
	if near == negated {
		ts.Fatalf("near: %v; %s and %s", near, a, b)
	}
}

// readArray reads a NumPy file.
func readArray(ts *testscript.TestScript, name string) *npy.Array {
	text := ts.ReadFile(name)
	a, err := npy.Read(strings.NewReader(text), int64(len(text)))
	ts.Check(err)
	return a
}

// floats are the numbers of an array.
func floats(ts *testscript.TestScript, a *npy.Array) []float32 {
	x, err := a.Float32s()
	ts.Check(err)
	return x
}

// traced holds a trace against the run that it is of, as in "traced run run.trace": it has the last epoch of
// all workers, and the bytes that were counted.
func traced(ts *testscript.TestScript, _ bool, args []string) {
	var run rundir.Run
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0]+"/run.json")), &run))
	file, err := tracetest.Read([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	s := &run.Summary
	sent := make([]int64, s.Workers)
	for _, span := range file.Spans {
		if span.Category == "send" && span.Args.Kind != comm.Setup.String() {
			sent[span.Worker] += span.Args.Bytes
		}
	}
	if about := file.About; about.Epoch != s.EpochsRun || about.Dataset != s.Dataset ||
		len(file.Workers) != s.Workers || !slices.Equal(sent, s.SentBytes) {
		ts.Fatalf("%s: %+v of %d workers that send %d, and the run is %+v", args[1], about,
			len(file.Workers), sent, s)
	}
}

// copyStore copies a folder of files, as in "cp-store good copy".
func copyStore(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// truncate cuts a file to half its length.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()/2))
}

// unquoted is an argument with escapes as in Go's strings: \x1b is one byte.
func unquoted(ts *testscript.TestScript, arg string) string {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(arg, `"`, `\"`) + `"`)
	ts.Check(err)
	return text
}

// replace puts one text in the place of another in a file, as in "replace g/graph.json edge 'a\x1bb'".
func replace(ts *testscript.TestScript, _ bool, args []string) {
	text, old := ts.ReadFile(args[0]), unquoted(ts, args[1])
	if !strings.Contains(text, old) {
		ts.Fatalf("%s holds no %q: %s", args[0], old, text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, old, unquoted(ts, args[2]), 1)),
		0o666))
}

// tame runs weft, as in "tame 0 inspect g": it must exit with that status, and print nothing but printable
// text and line breaks.
func tame(ts *testscript.TestScript, _ bool, args []string) {
	for i := range args {
		args[i] = unquoted(ts, args[i])
	}
	err := ts.Exec("weft", args[1:]...)
	checkStatus(ts, args, err)
	for _, name := range []string{"stdout", "stderr"} {
		said := ts.ReadFile(name)
		if wild := strings.IndexFunc(said, func(r rune) bool {
			return r != '\n' && !strconv.IsPrint(r)
		}); wild >= 0 || !utf8.ValidString(said) {
			ts.Fatalf("weft %q printed %q", args[1:], said)
		}
	}
}

// unread runs weft with nobody reading what it prints, as in "unread 0 train g": it must exit with that
// status, of which -1 means that a signal ended it.
func unread(ts *testscript.TestScript, _ bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	defer w.Close()
	ts.Check(r.Close())
	c := exec.Command("weft", args[1:]...)
	c.Dir, c.Stdout, c.Stderr = ts.MkAbs("."), w, w
	checkStatus(ts, args, c.Run())
}

// earlyInterrupt runs weft train, as in "early-interrupt run train g --out run", and interrupts it as soon as
// the run's folder has a configuration. Until then nobody reads what it prints, so that it gets no further.
func earlyInterrupt(ts *testscript.TestScript, _ bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	defer r.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	ts.Check(err)
	_, err = w.Write(make([]byte, size))
	ts.Check(err)
	c := exec.Command("weft", args[1:]...)
	c.Dir, c.Stdout = ts.MkAbs("."), w
	ts.Check(c.Start())
	ts.Check(w.Close())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for begun := false; !begun; {
		select {
		case err := <-ended:
			ts.Fatalf("weft %q: ended before its folder was there: %v", args[1:], err)
		case <-time.After(time.Millisecond):
			_, err := os.Stat(ts.MkAbs(args[0] + "/run.yaml"))
			begun = err == nil
		}
	}
	ts.Check(c.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, r)
	ts.Check(err)
	checkStatus(ts, append([]string{fmt.Sprint(cli.ExitInterrupted)}, args[1:]...), <-ended)
}

// checkStatus checks the exit status of a weft that was run with the arguments behind the first, which is the
// status.
func checkStatus(ts *testscript.TestScript, args []string, err error) {
	status := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(status) != args[0] {
		ts.Fatalf("weft %q: exit status %d, want %s", args[1:], status, args[0])
	}
}

// prefixWeights copies weights with "model." in front of each name.
func prefixWeights(ts *testscript.TestScript, _ bool, args []string) {
	weights, _, err := safetensors.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	named := map[string]safetensors.Tensor{}
	for name, w := range weights {
		named["model."+name] = w
	}
	var written bytes.Buffer
	ts.Check(safetensors.Write(&written, named, nil))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), written.Bytes(), 0o666))
}

// relabel writes a store with those of a store's classes that are named, numbered in that order. Vertices of
// others have no label, and are in no split.
func relabel(ts *testscript.TestScript, _ bool, args []string) {
	g, err := graph.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	names, class := args[2:], make([]int64, g.Types[0].Count)
	for v, k := range g.Labels.Class {
		class[v] = -1
		if k >= 0 {
			class[v] = int64(slices.Index(names, g.Labels.Names[k]))
		}
	}
	for s := range g.Splits {
		for _, part := range g.Splits[s].Parts() {
			var kept []int64
			for _, v := range *part {
				if class[v] >= 0 {
					kept = append(kept, v)
				}
			}
			*part = kept
		}
	}
	g.Labels = graph.Labels{Classes: len(names), Class: class, Names: names}
	ts.Check(g.Write(ts.MkAbs(args[1])))
	ts.Check(g.Close())
}

// renameTypes gives the types of a store the names that another program might give them.
func renameTypes(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0] + "/graph.json")
	text := strings.NewReplacer(`"vertex"`, `"paper"`, `"edge"`, `"cites"`).Replace(ts.ReadFile(path))
	ts.Check(os.WriteFile(path, []byte(text), 0o666))
}
