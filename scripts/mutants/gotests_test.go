package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/internal/require"
)

// What go test prints is read as death by a test or a part of one, by the end of the process, and by the
// time.
func TestJudge(t *testing.T) {
	dead := func(by string) verdict { return verdict{dead: true, by: by, compiled: true, ended: true} }
	for name, c := range map[string]struct {
		events string
		want   verdict
		took   time.Duration
	}{
		"passes": {
			`run A;run A/b;pass A/b 1;pass A 1.5;run B;pass B 2;pass  9`,
			verdict{compiled: true},
			3500 * time.Millisecond,
		},
		"fails": {
			`run A;pass A 1;run B;run B/c;fail B/c 1;run B/d;fail B/d 1;fail B 1;FAIL  0;fail  9`,
			verdict{dead: true, by: "B/c", compiled: true, failed: []string{"B/c", "B/d", "B"}},
			time.Second,
		},
		"panics": {
			`run A;run A/b;fail A/b 1;fail A 1;fail  9`,
			verdict{dead: true, by: "A/b", compiled: true, ended: true, failed: []string{"A/b", "A"}},
			0,
		},
		"ends": {`run A;pass A 1;run B;fail  9`, dead("B"), time.Second},
		"hangs": {
			`run A;timeout A;fail A 1;fail  9`,
			verdict{dead: true, by: "A (too long)", compiled: true, ended: true, failed: []string{"A"}},
			0,
		},
		"is not built": {`build-output  0;build-fail  0;fail  9`, verdict{by: "a.go:1: wrong"}, 0},
	} {
		var text strings.Builder
		for event := range strings.SplitSeq(c.events, ";") {
			words := append(strings.Split(event, " "), "0")
			action, output := words[0], ""
			switch action {
			case "timeout":
				action, output = "output", "panic: test timed out after 1s"
			case "FAIL":
				action, output = "output", `FAIL\n`
			case "build-output":
				output = "a.go:1: wrong"
			}
			text.WriteString(`{"Action":"` + action + `","Test":"` + words[1] + `","Elapsed":` + words[2] +
				`,"Output":"` + output + `"}` + "\n")
		}
		got, took := judge([]byte("ld: a warning\n" + text.String()))
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.took, took, name)
	}
}

// An interpreter that takes longer than it may is ended, and its mutant is dead; the file is right again.
func TestPythonHangs(t *testing.T) {
	folder := t.TempDir()
	python := filepath.Join(folder, "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\nsleep 600\n"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.py"), []byte("right"), 0o666))
	p := &pyTests{
		suites: []suite{{python: python}}, start: time.Millisecond,
		tests: map[int][][]pyTest{3: {{{Name: "a"}}}},
	}
	v, err := p.try(t.Context(), folder, 3, mutant{File: "a.py"}, []byte("wrong"))
	require.NoError(t, err)
	assert.Equal(t, verdict{dead: true, by: "pytest (too long)", compiled: true}, v)
	text, err := os.ReadFile(filepath.Join(folder, "a.py"))
	require.NoError(t, err)
	assert.Equal(t, "right", string(text))
}
