package graph

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// graph writes the files of all types and relations.
func (s *Folder) graph(g *Graph) {
	s.types(g, func(_ int, t VertexType) { s.vertices(t, g.Graphs) })
	for i := range g.Relations {
		r := &g.Relations[i]
		d := describeRelation(r)
		s.within(g.layout().edges(r.Ends()), func() {
			s.write(r.stored(inEdges, &d, r.rows()))
			s.edgeFiles(&r.Frame)
		})
	}
}

// types writes the names, labels and splits of vertex types, and has write write the other files of each.
func (s *Folder) types(g *Graph, write func(i int, t VertexType)) {
	d := describe(g)
	for i, t := range g.Types {
		s.within(g.layout().vertices(t.Name()), func() {
			write(i, t)
			if i == 0 {
				s.write(g.Types[0].Labels.stored(d.Vertices[0].Labels, t.Count))
				s.names(classNamesFile, g.Types[0].Labels.Names)
				s.splits(splitFiles, g.Types[0].Splits)
			}
		})
	}
}

// vertices writes the files that every vertex type may have.
func (s *Folder) vertices(t VertexType, graphs int) {
	d := describeVertices(t)
	s.write(append(t.Features.stored(d.Features, t.Count), t.stored(&d, graphs)...))
	s.names(namesFile, t.Names)
}

// splits writes splits. Each file has one part of all splits.
func (s *Folder) splits(files [3]string, splits []Split) {
	if len(splits) == 0 {
		return
	}
	for part, file := range files {
		rows := make([][]int64, len(splits))
		width := 0
		for k := range splits {
			rows[k] = *splits[k].Parts()[part]
			width = max(width, len(rows[k]))
		}
		if len(splits) == 1 {
			save(s, file, rows[0], width)
			continue
		}
		a := newArray[int64](s, file, len(splits), width)
		for _, row := range rows {
			put(a, row)
			put(a, slices.Repeat([]int64{-1}, width-len(row)))
		}
		a.close()
	}
}

// names writes a list of names, one per line; nothing where names is nil.
func (s *Folder) names(file string, names []string) {
	if names == nil || s.err != nil {
		return
	}
	const copies, marks = 6, 4 // the encoder's buffers double; each name has quotes and a line
	text := int64(0)
	for _, name := range names {
		text += marks + int64(len(name))
	}
	if s.err = memory.Need(copies * text); s.err != nil {
		return
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if s.err = encoder.Encode(names); s.err == nil {
		s.file(file, b.Bytes())
	}
}

// json writes a value as indented JSON.
func (s *Folder) json(name string, value any) {
	if s.err != nil {
		return
	}
	var text []byte
	if text, s.err = json.MarshalIndent(value, "", "  "); s.err == nil {
		s.file(name, append(text, '\n'))
	}
}

// description writes graph.json, with the record of all files. It refuses a description that is longer than
// readers accept.
func (s *Folder) description(d *description, symmetric []int) {
	if s.err != nil {
		return
	}
	text, err := json.MarshalIndent(d, "", "  ")
	switch length := len(text) + 1; {
	case err != nil:
		s.err = err
	case length > maxDescription:
		s.err = refusal.Graph.Errorf("the description of %d vertex types, %d relations and %d splits takes "+
			"%d bytes, and a store has at most %d: leave some out", len(d.Vertices), len(d.Relations),
			len(d.Vertices[0].Splits), length, maxDescription)
	default:
		s.file(descriptionFile, append(text, '\n'))
		s.record(symmetric)
	}
}

// file writes a whole file and brings it to disk.
func (s *Folder) file(name string, data []byte) {
	s.completed()
	if s.err != nil {
		return
	}
	var f *os.File
	if f, s.err = s.create(name); s.err != nil {
		return
	}
	_, err := f.Write(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, reason(err))
	}
	sum := sha256.Sum256(data)
	s.err = errors.Join(err, s.complete(filepath.Join(s.sub, name), f, sum[:]))
}
