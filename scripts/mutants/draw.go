package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A drawn mutant is one with its file's text, without it and with it.
type drawn struct {
	mutant
	before, after []byte
}

// lines returns the lines that a mutant changes, and what they become, each on one line.
func (m drawn) lines() (before, after string) {
	from := 1 + strings.LastIndexByte(string(m.before[:m.Start]), '\n')
	rest := strings.IndexByte(string(m.before[m.End:])+"\n", '\n')
	join := func(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }
	return join(m.before[from : m.End+rest]), join(m.after[from : m.Start+len(m.New)+rest])
}

// draw draws mutants of different lines.
func (s *search) draw(ctx context.Context) (mutants []drawn, err error) {
	lines, err := changedLines(ctx, s.root, s.commits)
	if err != nil {
		return nil, err
	}
	python := map[string][]int{} // lines by their files
	texts, ofLine := map[string][]byte{}, map[line][]mutant{}
	add := func(all []mutant) {
		for _, m := range all {
			if at := (line{m.File, m.Line}); lines[at] {
				ofLine[at] = append(ofLine[at], m)
			}
		}
	}
	for at := range lines {
		if !strings.Contains(at.file, s.only) {
			continue
		}
		isGo := s.goTests.ofFile[at.file] != nil
		if !isGo && (len(s.pyTests.suites) == 0 || !strings.HasPrefix(at.file, "python/src/")) {
			continue
		}
		if !isGo {
			python[at.file] = append(python[at.file], at.number)
		}
		if texts[at.file] != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.root, at.file))
		if err != nil {
			return nil, err
		}
		texts[at.file] = text
		if !isGo {
			continue
		}
		all, err := goMutants(at.file, text)
		if err != nil {
			return nil, err
		}
		add(all)
	}
	all, err := pyMutants(ctx, s.root, python)
	if err != nil {
		return nil, err
	}
	add(all)
	random := rand.New(rand.NewPCG(s.seed, 0))
	places := slices.SortedFunc(maps.Keys(ofLine), line.compare)
	random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	for _, at := range places {
		if len(mutants) == s.count {
			break
		}
		for _, m := range mixed(random, ofLine[at]) {
			d := drawn{m, texts[m.File], m.in(texts[m.File])}
			if s.goTests.ofFile[m.File] == nil || s.goTests.compiles(m, d.after) {
				mutants = append(mutants, d)
				break
			}
		}
	}
	return mutants, ctx.Err()
}

// mixed shuffles mutants so that one of each kind comes first: no kind is rarer for having fewer on a line.
func mixed(random *rand.Rand, all []mutant) []mutant {
	shuffle := func() {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	shuffle()
	before, rank := map[string]int{}, map[mutant]int{}
	for _, m := range all {
		rank[m] = before[m.Kind]
		before[m.Kind]++
	}
	shuffle()
	slices.SortStableFunc(all, func(a, b mutant) int { return cmp.Compare(rank[a], rank[b]) })
	return all
}

//go:embed mutate.py
var mutatePy string

// pyMutants returns the mutants of lines of Python, by their files.
func pyMutants(ctx context.Context, root string, lines map[string][]int) (mutants []mutant, err error) {
	list, err := json.Marshal(lines)
	if err != nil {
		return nil, err
	}
	command := inGroup(ctx, root, nil, "python3", "-B", "-c", mutatePy)
	command.Stdin, command.Stderr = bytes.NewReader(list), os.Stderr
	text, err := command.Output()
	if err == nil {
		err = json.Unmarshal(text, &mutants)
	}
	if err != nil {
		return nil, fmt.Errorf("scripts/mutants/mutate.py: %w", err)
	}
	return mutants, nil
}
