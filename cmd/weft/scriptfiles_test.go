package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/comm"
	"weft/graph"
	"weft/internal/safetensors"
	"weft/internal/trace/tracetest"
	"weft/nn"
	"weft/train/rundir"
)

// What a session does to files, and to a run.

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
		output := ts.ReadFile(name)
		if wild := strings.IndexFunc(output, func(r rune) bool {
			return r != '\n' && !strconv.IsPrint(r)
		}); wild >= 0 || !utf8.ValidString(output) {
			ts.Fatalf("weft %q printed %q", args[1:], output)
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
	for v, k := range g.Types[0].Labels.Class {
		class[v] = -1
		if k >= 0 {
			class[v] = int64(slices.Index(names, g.Types[0].Labels.Names[k]))
		}
	}
	for s := range g.Types[0].Splits {
		for _, part := range g.Types[0].Splits[s].Parts() {
			var kept []int64
			for _, v := range *part {
				if class[v] >= 0 {
					kept = append(kept, v)
				}
			}
			*part = kept
		}
	}
	g.Types[0].Labels = graph.Labels{Classes: len(names), Class: class, Names: names}
	ts.Check(g.Write(ts.MkAbs(args[1])))
	ts.Check(g.Close())
}

// renameTypes gives the types of a store the names that another program might give them.
func renameTypes(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0] + "/graph.json")
	text := strings.NewReplacer(`"vertex"`, `"paper"`, `"edge"`, `"cites"`).Replace(ts.ReadFile(path))
	ts.Check(os.WriteFile(path, []byte(text), 0o666))
}

// writeWeights writes weights, as in "write-weights w.safetensors convs.0.lin_l.weight 2x1 0 2".
func writeWeights(ts *testscript.TestScript, _ bool, args []string) {
	state := nn.State{}
	for rest := args[1:]; len(rest) > 0; {
		var shape []int
		values := 1
		for _, text := range strings.Split(rest[1], "x") {
			n, err := strconv.Atoi(text)
			ts.Check(err)
			shape, values = append(shape, n), values*n
		}
		weights := nn.Tensor{Shape: shape}
		for _, text := range rest[2 : 2+values] {
			x, err := strconv.ParseFloat(text, 32)
			ts.Check(err)
			weights.Float32 = append(weights.Float32, float32(x))
		}
		state[rest[0]], rest = weights, rest[2+values:]
	}
	var text bytes.Buffer
	ts.Check(nn.EncodeState(&text, state))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o666))
}
