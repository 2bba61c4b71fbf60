package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"weft/internal/safetensors"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"weft": main}) }

// TestScripts runs the command as a user would: each file below testdata/script is a session.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("WEFT_CACHE", env.WorkDir+"/cache")
			env.Setenv("WEFT_DATA", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"refused": refused, "cp-store": copyStore, "truncate": truncate, "prefix-weights": prefixWeights,
		},
	})
}

// refused runs weft, as in "refused 'unknown flag' train --nosuch": it must exit with status 2, print nothing on standard
// output, and on standard error one line that contains the text.
func refused(ts *testscript.TestScript, _ bool, args []string) {
	want, args := args[0], args[1:]
	err := ts.Exec("weft", args...)
	said := ts.ReadFile("stderr")
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit) || exit.ExitCode() != exitRefused:
		ts.Fatalf("weft %q: %v, want exit status %d", args, err, exitRefused)
	case strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "weft: ") || !strings.Contains(said, want):
		ts.Fatalf("weft %q said %q; want one line with %q", args, said, want)
	case ts.ReadFile("stdout") != "":
		ts.Fatalf("weft %q printed %q", args, ts.ReadFile("stdout"))
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

// prefixWeights copies weights with "model." in front of each name.
func prefixWeights(ts *testscript.TestScript, _ bool, args []string) {
	weights, _, err := safetensors.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	named := map[string]safetensors.Tensor{}
	for name, w := range weights {
		named["model."+name] = w
	}
	ts.Check(safetensors.WriteFile(ts.MkAbs(args[1]), named, nil))
}
