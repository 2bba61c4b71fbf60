package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// marked returns files with a call before the statement of each mutant that is in one. The call is by the
// mutant's number.
func marked(texts map[string][]byte, mutants map[int]mutant, call string) map[string][]byte {
	order := make([]int, 0, len(mutants))
	for number, m := range mutants {
		if m.Statement >= 0 {
			order = append(order, number)
		}
	}
	// Of each file the last comes first, and moves no other.
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(mutants[b].Statement, mutants[a].Statement), cmp.Compare(a, b))
	})
	files := map[string][]byte{}
	for _, number := range order {
		m := mutants[number]
		text, ok := files[m.File]
		if !ok {
			text = texts[m.File]
		}
		mark := mutant{Start: m.Statement, End: m.Statement, New: fmt.Sprintf(call, number) + m.Separator}
		files[m.File] = mark.in(text)
	}
	return files
}

// Marks write which mutants of Go a process comes to.
type marks struct {
	*packages
	folder  string
	texts   map[string][]byte // of files without mutants
	mutants map[int]mutant
	written atomic.Int64
}

// called is the file of a marked package that has the call: its arguments are the package, one more than the
// numbers of mutants, and the folder where it writes. The environment of a session of the command has WORK.
const called = `package %s

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
)

var mutantsReached [%d]atomic.Bool

func mutantReached(number int) {
	if mutantsReached[number].Load() || mutantsReached[number].Swap(true) {
		return
	}
	file, err := os.OpenFile(filepath.Join(%q, fmt.Sprint(number)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = fmt.Fprintln(file, filepath.Base(os.Getenv("WORK")))
	}
	if err != nil {
		panic(err)
	}
	file.Close()
}
`

// forTests makes a folder that marks write into, and an overlay with these marks.
func (k *marks) forTests() (folder, list string, err error) {
	folder = filepath.Join(k.folder, fmt.Sprint("marks-", k.written.Add(1)))
	written := filepath.Join(folder, reached)
	if err := os.MkdirAll(written, 0o777); err != nil {
		return "", "", err
	}
	most := 0
	for number := range k.mutants {
		most = max(most, number+1)
	}
	texts := map[string][]byte{}
	for name, text := range marked(k.texts, k.mutants, "mutantReached(%d)") {
		of := k.ofFile[name]
		texts[filepath.Join(k.root, name)] = text
		texts[filepath.Join(of.Dir, "mutant_reached.go")] = fmt.Appendf(nil, called, of.Name, most, written)
	}
	list, err = overlay(folder, texts)
	return written, list, err
}

// reached returns what marks have written, as a baseline has it.
func (k *marks) reached(folder string) (map[int][]string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	of := map[int][]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(file.Name())
		if err != nil {
			return nil, err
		}
		of[number] = nil
		for row := range bytes.Lines(text) {
			name, ok := strings.CutPrefix(strings.TrimSpace(string(row)), "script-")
			if ok && !slices.Contains(of[number], name) {
				of[number] = append(of[number], name)
			}
		}
	}
	return of, nil
}
