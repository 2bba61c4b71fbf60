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
	overlay  string // has them
	sessions string // is the folder of processes without their variable
}

// variable of the environment names the folder that marks write into. A session of the command lacks it.
const variable = "MUTANTS_REACHED"

// called is the file of a marked package that has the call: its arguments are the package, one more than the
// numbers of mutants, the variable, and the folder of sessions, whose environment has WORK.
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
	folder := os.Getenv(%q)
	if folder == "" {
		folder = %q
	}
	path := filepath.Join(folder, fmt.Sprint(number))
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = fmt.Fprintln(file, filepath.Base(os.Getenv("WORK")))
	}
	if err != nil {
		panic(err)
	}
	file.Close()
}
`

// newMarks writes the overlay into a folder, for mutants of some texts.
func newMarks(folder string, all *packages, texts map[string][]byte, mutants map[int]mutant) (*marks, error) {
	k := &marks{sessions: filepath.Join(folder, "sessions")}
	if err := os.MkdirAll(k.sessions, 0o777); err != nil {
		return nil, err
	}
	most := 0
	for number := range mutants {
		most = max(most, number+1)
	}
	files := map[string][]byte{}
	for name, text := range marked(texts, mutants, "mutantReached(%d)") {
		p := all.ofFile[name]
		files[filepath.Join(all.root, name)] = text
		call := fmt.Appendf(nil, called, p.Name, most, variable, k.sessions)
		files[filepath.Join(p.Dir, "mutant_reached.go")] = call
	}
	var err error
	k.overlay, err = overlay(folder, files)
	return k, err
}

// reached returns what marks have written into a folder: by the number of a mutant, the sessions that came to
// it.
func (k *marks) reached(folder string) (map[int][]string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	sessions := map[int][]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(file.Name())
		if err != nil {
			return nil, err
		}
		sessions[number] = nil
		for row := range bytes.Lines(text) {
			name, ok := strings.CutPrefix(strings.TrimSpace(string(row)), "script-")
			if ok && !slices.Contains(sessions[number], name) {
				sessions[number] = append(sessions[number], name)
			}
		}
	}
	return sessions, nil
}
