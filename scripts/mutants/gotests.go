package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A verdict is what tests say about a mutant.
type verdict struct {
	dead     bool
	by       string // the test that failed, and how, if not by what it found; or why it does not compile
	compiled bool
	failed   []string // tests, and parts of tests, that failed
	ended    bool     // the process did, before its tests
}

// Tests may take ten times as long as they do without a mutant, and this long at least.
const slower, shortest = 10, 30 * time.Second

// goTests runs the tests of packages of Go, with other text in place of files by `go test -overlay`.
type goTests struct {
	*packages
	flags []string // of go test
	out   io.Writer
	marks *marks
	known sync.Map // by import path: what baseline returns, as a func() (baseline, error)
}

// A baseline is what the tests of a package do without a mutant.
type baseline struct {
	fails bool
	limit time.Duration // for tests of a mutant
	// reached has the mutants whose statements these tests come to, by their numbers. If the package is the
	// command, it has the sessions that do so.
	reached map[int][]string
	skip    []string // tests that fail; of the command, sessions
}

// try runs the tests of one package after the other that come to a mutant, until one notices it.
func (g *goTests) try(
	ctx context.Context, folder string, number int, m mutant, text []byte,
) (verdict, error) {
	overlay, err := overlay(folder, map[string][]byte{filepath.Join(g.root, m.File): text})
	if err != nil {
		return verdict{}, err
	}
	for _, tested := range g.testers(m.File) {
		once, _ := g.known.LoadOrStore(tested.ImportPath, sync.OnceValues(func() (baseline, error) {
			return g.baseline(ctx, tested)
		}))
		right, err := once.(func() (baseline, error))()
		if err != nil {
			return verdict{}, err
		}
		sessions, ok := right.reached[number]
		if right.fails || !ok && m.Statement >= 0 {
			continue
		}
		v, _, err := g.run(ctx, tested, overlay, right.limit, sessions, right.skip)
		if err != nil || v.dead || !v.compiled {
			return v, err
		}
	}
	return verdict{compiled: true}, nil
}

// baseline runs a package's tests without a mutant, and writes if they fail.
func (g *goTests) baseline(ctx context.Context, tested *pkg) (baseline, error) {
	folder, err := os.MkdirTemp(filepath.Dir(g.marks.sessions), "reached")
	if err != nil {
		return baseline{}, err
	}
	v, took, err := g.run(ctx, tested, g.marks.overlay, time.Hour, nil, nil, variable+"="+folder)
	if err != nil || !v.compiled || v.ended || v.dead && v.failed == nil {
		fmt.Fprintf(g.out, "left out, as it fails without a mutant: %s\n", v.by)
		return baseline{fails: true}, err
	}
	var skip []string
	for _, name := range v.failed {
		fmt.Fprintf(g.out, "left out, as it fails without a mutant: %s %s\n", tested.ImportPath, name)
		ok := true
		if tested.ImportPath == g.command {
			name, ok = strings.CutPrefix(name, sessionsTest+"/")
		}
		if ok && !strings.Contains(name, "/") {
			skip = append(skip, name)
		}
	}
	reached, err := g.marks.reached(folder)
	if err == nil && tested.ImportPath == g.command {
		var sessions map[int][]string
		sessions, err = g.marks.reached(g.marks.sessions)
		for number, names := range sessions {
			if len(names) == 0 { // all run
				continue
			}
			sessions[number] = slices.DeleteFunc(names, func(name string) bool {
				return slices.Contains(skip, name)
			})
			if len(sessions[number]) == 0 { // none is left
				delete(sessions, number)
			}
		}
		maps.Copy(reached, sessions)
	}
	return baseline{limit: max(slower*took, shortest), reached: reached, skip: skip}, err
}

// An event is a line of `go test -json` (go doc test2json). Test is empty in those of a package.
type event struct {
	Action, Test, Output, FailedBuild string
	Elapsed                           float64
}

// sessionsTest is the test of the sessions of the command, of which each is a part.
const sessionsTest = "TestScripts"

// run runs the tests of a package, of the command some of its sessions, or all. It returns how long the tests
// themselves took.
func (g *goTests) run(
	ctx context.Context, tested *pkg, overlay string, limit time.Duration,
	sessions, skip []string, environment ...string,
) (verdict, time.Duration, error) {
	args := append([]string{"test", "-json"}, g.flags...)
	if len(environment) == 0 { // a mutant dies by one test
		args = append(args, "-failfast")
	}
	args = append(args, "-timeout", limit.String())
	skipped := "^(" + strings.Join(skip, "|") + ")$"
	if tested.ImportPath == g.command {
		skipped = "^" + sessionsTest + "$/" + skipped
	}
	if at := slices.Index(args, "-skip") + 1; len(skip) > 0 && at > 0 { // a second one would replace it
		args[at] += "|" + skipped
	} else if len(skip) > 0 {
		args = append(args, "-skip", skipped)
	}
	if tested.ImportPath == g.command {
		args = append(args, "-run", "^"+sessionsTest+"$/^("+strings.Join(sessions, "|")+")$")
		if len(sessions) == 0 {
			args[len(args)-1] = "^" + sessionsTest + "$"
		}
	}
	// What a test builds has the overlay, too.
	environment = append(environment, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	command := inGroup(ctx, g.root, environment, "go", append(args, tested.ImportPath)...)
	var why bytes.Buffer
	command.Stderr = &why
	out, err := command.Output()
	if ctx.Err() != nil {
		return verdict{}, 0, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return verdict{}, 0, fmt.Errorf("go test %s: %w", tested.ImportPath, err)
	}
	v, took := judge(out)
	if err != nil && !v.dead && v.compiled {
		return v, 0, fmt.Errorf("go test %s: %w: %s", tested.ImportPath, err, strings.TrimSpace(why.String()))
	}
	if v.dead || !v.compiled {
		v.by = strings.TrimPrefix(tested.ImportPath, "weft/") + " " + v.by
	}
	return v, took, nil
}

// judge reads what `go test -json` printed. Of a test with parts, the part is named.
func judge(output []byte) (v verdict, took time.Duration) {
	v.compiled, v.ended = true, true
	running, slow, build := []string{}, false, ""
	for text := range bytes.Lines(output) {
		var e event
		if json.Unmarshal(text, &e) != nil {
			continue // go writes what a linker says among the events
		}
		if e.Test == "" && (e.Output == "PASS\n" || e.Output == "FAIL\n") { // the last tests are done
			v.ended = false
		}
		slow = slow || strings.HasPrefix(e.Output, "panic: test timed out")
		switch {
		case e.Action == "build-output" && !strings.HasPrefix(e.Output, "#"):
			build = cmp.Or(build, strings.TrimSpace(e.Output))
		case e.Action == "build-fail" || e.FailedBuild != "":
			v.compiled = false
		case e.Test == "" && e.Action == "fail":
			v.dead = true
			if v.by == "" && len(running) > 0 { // it ended the process
				v.by = running[len(running)-1]
			}
		case e.Test == "":
		case e.Action == "run":
			running = append(running, e.Test)
		case e.Action == "fail":
			v.by = cmp.Or(v.by, e.Test)
			v.failed = append(v.failed, e.Test)
		case e.Action == "pass" && !strings.Contains(e.Test, "/"):
			took += time.Duration(e.Elapsed * float64(time.Second))
		}
	}
	if !v.compiled {
		return verdict{by: build}, 0
	}
	v.ended = v.ended && v.dead
	if v.dead && slow {
		v.by += " (too long)"
	}
	return v, took
}

// overlay writes what `go -overlay` has in place of files, and returns the path of its list.
func overlay(folder string, texts map[string][]byte) (string, error) {
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], text, 0o666); err != nil {
			return "", err
		}
	}
	list := filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(list, text, 0o666)
	}
	return list, err
}

// inGroup prepares a program that ends with all it has started.
func inGroup(
	ctx context.Context, folder string, environment []string, name string, args ...string,
) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = folder, append(os.Environ(), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 10 * time.Second
	return command
}
