// Package kg reads knowledge graphs as published for benchmarks of link prediction: text with a triple of
// head, relation and tail in each line, in the files train.txt, valid.txt and test.txt of a folder, as WN18RR
// (Dettmers et al. 2018, arXiv:1707.01476) and FB15k-237 (Toutanova & Chen 2015). The command import kg reads
// them by it.
package kg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/lines"
	"weft/graph/internal/names"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// parts are the names of the files, in the order of the parts of a split. A file may also end in .gz.
var parts = [3]string{"train.txt", "valid.txt", "test.txt"}

// lists are the files with the names of entities and of relations that some folders have, such as DGL's: a
// number from 0 and a name in each line.
var lists = [2]string{"entities.dict", "relations.dict"}

// Options say how a graph is read.
type Options struct {
	// Path is a folder, or one file of triples without a split.
	Path string
	// Reciprocal adds the reverse of each relation, with the reverse of its split: a test triple is then
	// measured twice, by the rank of its tail and by that of its head.
	Reciprocal bool
}

// Is reports whether a folder has the files of a graph.
func Is(folder string) bool {
	return !slices.ContainsFunc(parts[:], func(name string) bool { return found(folder, name) == "" })
}

// Files are the files of a folder that Read reads.
func Files(folder string) (files []string) {
	for _, name := range slices.Concat(parts[:], lists[:]) {
		if path := found(folder, name); path != "" {
			files = append(files, path)
		}
	}
	return files
}

// found is the path of a file in a folder, plain or gzip; "" if it is not there.
func found(folder, name string) string {
	for _, end := range []string{"", ".gz"} {
		path := filepath.Join(folder, name+end)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// Read reads the graph. Entities are the vertices, of one type, and each relation leads from heads to tails.
// Entities and relations are in the order of entities.dict and relations.dict, or else of their first
// appearance. From a folder, the edges are the training triples, and each relation has the split. A triple
// that stands twice becomes two edges. Complaints about a file are refusals that name it, and its line.
func Read(o Options) (*graph.Graph, error) {
	r := &reader{Options: o, Relations: names.NewRelations()}
	read := r.folder
	if info, err := os.Stat(o.Path); err == nil && !info.IsDir() {
		read = func() error { return r.file(o.Path, 0) }
	}
	if err := read(); err != nil {
		return nil, err
	}
	g, err := r.graph()
	if err != nil {
		return nil, refusal.In(o.Path, err)
	}
	return g, g.Check()
}

// reader collects the triples of files.
type reader struct {
	Options
	*names.Relations
	split    bool         // there are files of a split
	heldOut  [][3][]int32 // by relation: head and tail of the triples by part; none of training
	triples  [3]int       // of each part
	list     [2]string    // the names of files that list the entities and the relations; "": there is none
	warnings []string
}

// folder reads the files of a folder.
func (r *reader) folder() error {
	entries, err := os.ReadDir(r.Path)
	if err != nil {
		return refusal.Errorf("%s: %w", r.Path, errors.Unwrap(err))
	}
	r.split = true
	var read []string
	entity := func(name []byte) (int, error) {
		v, err := r.Entities.Number(name)
		return int(v), err
	}
	for k, add := range []func(name []byte) (int, error){entity, r.number} {
		path := found(r.Path, lists[k])
		if path == "" {
			continue
		}
		if err := readList(path, add); err != nil {
			return err
		}
		r.list[k] = filepath.Base(path)
		read = append(read, r.list[k])
	}
	for part, name := range parts {
		path := found(r.Path, name)
		if path == "" {
			return refusal.Errorf("%s: has no %s: a folder has %s, or name one file of triples", r.Path, name,
				strings.Join(parts[:], ", "))
		}
		if err := r.file(path, part); err != nil {
			return err
		}
		read = append(read, filepath.Base(path))
	}
	var others []string
	for _, e := range entries {
		if name := e.Name(); !slices.Contains(read, name) && !strings.HasPrefix(name, ".") {
			others = append(others, name)
		}
	}
	if others != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: not read: %s", r.Path, arrays.Listed(others)))
	}
	return nil
}

// each calls do with each line of a file. Errors say that a line should be called.
func each(path, called string, do func(line []byte) error) error {
	const longest = 64 << 10 // bytes of a line
	form := lines.Form{
		Path: path, Text: "head, relation and tail between tabs",
		Line: called, Longest: longest,
	}
	return lines.Each(form, func(line []byte, _ int64) error { return do(line) })
}

// readList reads a list of names. add returns the number of a name.
func readList(path string, add func(name []byte) (int, error)) error {
	count := 0
	return each(path, "a number and a name", func(line []byte) error {
		number, name, _ := bytes.Cut(line, []byte("\t"))
		if n, err := strconv.Atoi(string(number)); err != nil || n != count {
			return fmt.Errorf("%.40q is not the number %d and a name, between them a tab, as in a list "+
				"that counts from 0", line, count)
		}
		if err := check(name); err != nil {
			return err
		}
		n, err := add(name)
		if err == nil && n != count {
			err = fmt.Errorf("%.40q stands twice: leave one of the lines out", name)
		}
		count++
		return err
	})
}

// check refuses a name that no vertex or relation can have.
func check(name []byte) error {
	if len(name) == 0 || !utf8.Valid(name) {
		return fmt.Errorf("the name %.40q is empty, or not UTF-8", name)
	}
	return nil
}

// file reads the triples of a part.
func (r *reader) file(path string, part int) error {
	tabs := false
	err := each(path, "a triple", func(line []byte) error {
		if r.triples[part] == 0 {
			tabs = bytes.IndexByte(line, '\t') >= 0
		}
		fields := bytes.Fields(line)
		if tabs {
			fields = bytes.Split(line, []byte("\t"))
		}
		if len(fields) != 3 {
			return fmt.Errorf("%d fields, where a triple has three: head, relation and tail, between tabs "+
				"or spaces", len(fields))
		}
		r.triples[part]++
		return r.add(fields, part)
	})
	if err == nil && r.triples[part] == 0 {
		err = refusal.Errorf("%s: has no triple: give head, relation and tail in each line", path)
	}
	return err
}

// number is Number, and makes room for the triples of the relation that are held out.
func (r *reader) number(name []byte) (int, error) {
	k, err := r.Number(name)
	if err == nil && k == len(r.heldOut) {
		r.heldOut, err = memory.Append(r.heldOut, [3][]int32{})
	}
	return k, err
}

// add adds a triple to a part.
func (r *reader) add(fields [][]byte, part int) error {
	var ends [2]int32
	for i, name := range [][]byte{fields[0], fields[2]} {
		if err := check(name); err != nil {
			return err
		}
		v, there := r.Entities.Find(name)
		if !there && r.list[0] != "" {
			return unlisted(name, r.list[0])
		}
		if !there {
			var err error
			if v, err = r.Entities.Number(name); err != nil {
				return err
			}
		}
		ends[i] = v
	}
	if err := check(fields[1]); err != nil {
		return err
	}
	before := len(r.All)
	k, err := r.number(fields[1])
	if err != nil {
		return err
	}
	if k == before && r.list[1] != "" {
		return unlisted(fields[1], r.list[1])
	}
	if part == 0 {
		return r.All[k].Add(ends[0], ends[1])
	}
	pairs := &r.heldOut[k][part]
	*pairs, err = memory.Append(*pairs, ends[0], ends[1])
	return err
}

// unlisted refuses a name that a list lacks.
func unlisted(name []byte, list string) error {
	return fmt.Errorf("%.40q is not among the names of %s: add it there, or leave that file out", name, list)
}

// graph makes the graph of the triples.
func (r *reader) graph() (*graph.Graph, error) {
	if err := r.TooMany(int64(r.triples[0] + r.triples[1] + r.triples[2])); err != nil {
		return nil, err
	}
	splits, err := r.splits()
	if err != nil {
		return nil, err
	}
	var changed []string // names, and what they are called
	all, numbered, err := r.Take(func(name string) string {
		to := called(name)
		if to != strings.ReplaceAll(strings.Trim(name, "/"), "/", ".") {
			changed = append(changed, name, to)
		}
		return to
	})
	if err != nil {
		return nil, err
	}
	for k := range splits {
		all[k].EdgeSplit = &splits[k]
	}
	g := &graph.Graph{
		Types: r.Vertices(), Relations: all,
		Provenance: "kg " + r.Path, Notes: numbered, Warnings: r.warnings,
	}
	if changed != nil {
		g.Notes = append(g.Notes, fmt.Sprintf("names of %s cannot be those of folders: the first, %q, is %q",
			arrays.Counted(len(changed)/2, "relation"), changed[0], changed[1]))
	}
	if r.Reciprocal {
		r.addReverses(g)
	}
	return g, nil
}

// called is a relation's name in a form that a folder, and a list of relations, can have: with a dot for each
// slash within, as Freebase writes it elsewhere, and an underscore for commas, semicolons and unprintable
// characters.
func called(name string) string {
	const longest = 180 // bytes
	name = strings.Map(func(c rune) rune {
		switch {
		case c == '/':
			return '.'
		case c == ',' || c == ';' || !unicode.IsPrint(c):
			return '_'
		}
		return c
	}, strings.Trim(name, "/"))
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "")
	}
	if name == "" || name[0] == '.' {
		name = "_" + strings.TrimLeft(name, ".")
	}
	return name
}

// splits are the splits of the relations; nil for a file.
func (r *reader) splits() ([]graph.EdgeSplit, error) {
	if !r.split {
		return nil, nil
	}
	const pair = 8 // bytes
	copies := int64(1)
	if r.Reciprocal {
		copies = 3 // triples that are held out take another copy
	}
	if err := memory.Need(pair * copies * r.Edges()); err != nil {
		return nil, err
	}
	splits := make([]graph.EdgeSplit, len(r.All))
	for k := range splits {
		splits[k].Edges = [3][]int32{r.All[k].Edges.Pairs(), r.heldOut[k][1], r.heldOut[k][2]}
	}
	return splits, nil
}

// addReverses adds the reverse of each relation, with the reverse of its split.
func (r *reader) addReverses(g *graph.Graph) {
	for k := range g.Relations {
		forward := &g.Relations[k]
		back := forward.Reversed(g.Types[0].Count)
		back.Source, back.Name, back.Target = forward.Target, graph.ReversePrefix+forward.Name, forward.Source
		if forward.EdgeSplit != nil {
			back.EdgeSplit = &graph.EdgeSplit{}
			for part, edges := range forward.EdgeSplit.Edges {
				swapped := slices.Clone(edges)
				for i := 0; i < len(swapped); i += 2 {
					swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
				}
				back.EdgeSplit.Edges[part] = swapped
			}
		}
		g.Relations = append(g.Relations, *back)
	}
}
