package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"weft/internal/assert"
	"weft/internal/require"
)

const example = `
-- go.mod --
module weft

go 1.26
-- a/a.go --
package a

func Own(x int) int {
	return 3 + x
}

func Far(x int) int {
	return 3 + x
}

func Session(x int) int {
	return 3 + x
}

func Seen(x int) int {
	return 3 + x
}

func Never(x int) int {
	return 3 + x
}
-- a/a_test.go --
package a

import "testing"

func TestOwn(t *testing.T) {
	Seen(1)
	if Own(1) != 4 {
		t.Error()
	}
}
-- b/b_test.go --
package b

import (
	"testing"

	"weft/a"
)

func TestFar(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if a.Far(1) != 4 {
			t.Error()
		}
	})
}
-- cmd/weft/main.go --
package main

import "weft/a"

func main() {
	a.Own(1)
}
-- cmd/weft/main_test.go --
package main

import (
	"testing"

	"weft/a"
)

func TestScripts(t *testing.T) {
	t.Run("other", func(t *testing.T) {})
	t.Run("one", func(t *testing.T) {
		t.Setenv("WORK", "/tmp/script-one")
		if a.Session(1) != 4 {
			t.Error()
		}
	})
	t.Run("wrong", func(t *testing.T) {
		a.Seen(1)
		t.Error()
	})
}

func TestMore(t *testing.T) {
	t.Error()
}
`

// Of mutants, one dies by its package's tests, one by those of a package that imports it, one by a session of
// the command. Two live: tests come to the one without a look at what it returns, or fail without it, and to
// the other not at all. The repository stays as it was.
func TestRun(t *testing.T) {
	second := map[string]string{}
	for _, file := range txtar.Parse([]byte(example)).Files {
		second[file.Name] = string(file.Data)
	}
	first := map[string]string{"a/a.go": strings.ReplaceAll(second["a/a.go"], "\treturn 3 + x\n", "")}
	folder := repository(t, first, second)
	t.Chdir(folder)
	var out bytes.Buffer
	args := []string{"--range", "HEAD~1..HEAD", "--only", "a/", "--", "-vet=off"}
	require.NoError(t, run(t.Context(), args, &out))
	for line, want := range map[string]string{
		"4": "dies  a/a.go:4  .*  a TestOwn", "8": "dies  a/a.go:8  .*  b TestFar/part",
		"12": "dies  a/a.go:12  .*  cmd/weft TestScripts/one", "16": "LIVES  a/a.go:16  .*  -",
		"20": "LIVES  a/a.go:20  .*  -",
	} {
		pattern := regexp.MustCompile(`(?m)^` + want + `  \d+ s\n\t- return 3 \+ x\n\t\+ return .*$`)
		if !pattern.Match(out.Bytes()) {
			t.Errorf("line %s is not %s in\n%s", line, pattern, out.String())
		}
	}
	assert.Contains(t, out.String(), "\n3 of 5 mutants died; seed 1 drew 5 of HEAD~1..HEAD\n")
	status, err := git(t.Context(), folder, "status", "--porcelain", "--ignored")
	require.NoError(t, err)
	assert.Equal(t, "", status)
}
