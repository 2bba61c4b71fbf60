package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A suite is some files of tests of Python, and the interpreter that has what they need.
type suite struct {
	python string
	files  []string
}

// pyTests runs the tests of Python that come to a mutant, in a copy of the repository.
type pyTests struct {
	root   string
	suites []suite
	out    io.Writer
	start  time.Duration      // what pytest may take to start, with imports
	tests  map[int][][]pyTest // those that come to a mutant, by its number and the suite, the fastest first
}

// A pyTest is a test by pytest's name for it.
type pyTest struct {
	Name, Outcome string
	Seconds       float64
}

//go:embed reached.py
var reachedPy []byte

// reached is the folder that marks write into.
const reached = "reached"

// copyTo copies the files that git tracks, as they are now, and links the built ones.
func (p *pyTests) copyTo(ctx context.Context, folder string) error {
	names, err := git(ctx, p.root, "ls-files", "-z")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		source, target := filepath.Join(p.root, name), filepath.Join(folder, name)
		info, err := os.Lstat(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(target), 0o777)
		}
		var content []byte
		var link string
		switch {
		case err != nil:
		case info.Mode().IsRegular():
			if content, err = os.ReadFile(source); err == nil {
				err = os.WriteFile(target, content, info.Mode().Perm())
			}
		case info.Mode().Type() == fs.ModeSymlink:
			if link, err = os.Readlink(source); err == nil {
				err = os.Symlink(link, target)
			}
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, "python/src/reached.py"), reachedPy, 0o666),
		os.Mkdir(filepath.Join(folder, reached), 0o777),
		os.Symlink(filepath.Join(p.root, "bin"), filepath.Join(folder, "bin")))
}

// reach runs all tests in a copy that has marks and no mutants, by which the tests are known that come to a
// mutant. It writes which tests fail without a mutant: those notice none.
func (p *pyTests) reach(
	ctx context.Context, folder string, texts map[string][]byte, mutants map[int]mutant,
) error {
	if err := p.copyTo(ctx, folder); err != nil {
		return err
	}
	for name, text := range marked(texts, mutants, "__import__('reached').at(%d)") {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o666); err != nil {
			return err
		}
	}
	p.tests = map[int][][]pyTest{}
	for i := range mutants {
		p.tests[i] = make([][]pyTest, len(p.suites))
	}
	for number, s := range p.suites {
		if _, err := p.pytest(ctx, folder, s.python, s.files); cmp.Or(ctx.Err(), err) != nil {
			return cmp.Or(ctx.Err(), err)
		}
		if err := p.read(folder, number); err != nil {
			return err
		}
	}
	return nil
}

// read adds what the tests of a suite have written, and removes it.
func (p *pyTests) read(folder string, suite int) error {
	all, err := outcomes(folder)
	if err != nil {
		return err
	}
	tests := map[string]pyTest{}
	for _, phase := range all {
		test := tests[phase.Name]
		test.Name, test.Seconds = phase.Name, test.Seconds+phase.Seconds
		if phase.Outcome != "passed" && test.Outcome != "failed" {
			test.Outcome = phase.Outcome
		}
		tests[phase.Name] = test
	}
	for name, test := range tests {
		if test.Outcome == "failed" {
			fmt.Fprintf(p.out, "left out, as it fails without a mutant: %s\n", name)
		}
	}
	for i := range p.tests {
		path := filepath.Join(folder, reached, strconv.Itoa(i))
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for row := range bytes.Lines(text) {
			var name string
			if err := json.Unmarshal(row, &name); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			test, ok := tests[name]
			if ok && test.Outcome == "" && !slices.Contains(p.tests[i][suite], test) {
				p.tests[i][suite] = append(p.tests[i][suite], test)
			}
		}
		slices.SortFunc(p.tests[i][suite], func(a, b pyTest) int { return cmp.Compare(a.Seconds, b.Seconds) })
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// try runs the tests in a copy that come to a mutant, until one notices it.
func (p *pyTests) try(
	ctx context.Context, folder string, number int, m mutant, text []byte,
) (v verdict, err error) {
	path := filepath.Join(folder, m.File)
	right, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, text, 0o666)
	}
	if err != nil {
		return verdict{}, err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, right, 0o666)) }()
	for i, s := range p.suites {
		var names []string
		seconds := 0.
		for _, test := range p.tests[number][i] {
			names, seconds = append(names, test.Name), seconds+test.Seconds
		}
		if len(names) == 0 {
			continue
		}
		limit := p.start + time.Duration(slower*seconds*float64(time.Second))
		limited, end := context.WithTimeout(ctx, limit)
		passed, err := p.pytest(limited, folder, s.python, append([]string{"-x"}, names...))
		slow := limited.Err() != nil
		end()
		switch {
		case ctx.Err() != nil:
			return verdict{}, ctx.Err()
		case slow:
			return verdict{dead: true, by: "pytest (too long)", compiled: true}, nil
		case err != nil:
			return verdict{}, err
		}
		all, err := outcomes(folder)
		if passed && err == nil {
			continue
		}
		v := verdict{dead: true, by: "pytest, before a test", compiled: true}
		failed := slices.IndexFunc(all, func(t pyTest) bool { return t.Outcome == "failed" })
		if failed >= 0 {
			v.by = all[failed].Name
		}
		return v, err
	}
	return verdict{compiled: true}, nil
}

// pytest runs tests in a copy, and returns whether all pass.
func (p *pyTests) pytest(ctx context.Context, folder, python string, arguments []string) (bool, error) {
	// Tests are named from the folder where it runs.
	all := strings.Fields("-B -m pytest -q -p no:cacheprovider -p reached -W ignore --rootdir .")
	environment := []string{"PYTHONPATH=" + filepath.Join(folder, "python/src")}
	err := inGroup(ctx, folder, environment, python, append(all, arguments...)...).Run()
	failed := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &failed), ctx.Err() != nil:
		return false, nil //nolint:nilerr // tests that fail are an answer
	}
	return false, err
}

// outcomes returns what the tests in a copy have written about themselves, and removes it.
func outcomes(folder string) (tests []pyTest, err error) {
	path := filepath.Join(folder, reached, "tests")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	for row := range bytes.Lines(text) {
		var test pyTest
		if err := json.Unmarshal(row, &test); err != nil {
			return nil, fmt.Errorf("what tests have written: %w", err)
		}
		tests = append(tests, test)
	}
	return tests, err
}
