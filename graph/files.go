package graph

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// graph writes the files of all types and relations.
func (s *staging) graph(g *Graph) {
	s.types(g, func(_ int, t VertexType) { s.vertices(t) })
	for i := range g.Relations {
		r := &g.Relations[i]
		s.within(g.layout().edges(r.Ends()), func() { s.relation(r) })
	}
}

// types writes the labels and splits of the first type, and has write write the files of each.
func (s *staging) types(g *Graph, write func(i int, t VertexType)) {
	for i, t := range g.Types() {
		s.within(g.layout().vertices(t.Type), func() {
			write(i, t)
			if i == 0 {
				s.labels(&g.Labels)
				s.splits(g.Splits)
			}
		})
	}
}

// vertices writes the files that every vertex type may have.
func (s *staging) vertices(t VertexType) {
	if f := &t.Features; f.Sparse() {
		s.int64s(featuresIndptrFile, f.Indptr, t.Count+1)
		s.int32s(featuresIndicesFile, f.Indices, len(f.Indices))
		s.float32s(featuresDataFile, f.Data, len(f.Data))
	} else if f.Columns > 0 {
		s.float32s(featuresFile, f.Dense, t.Count, f.Columns)
	}
	s.names(namesFile, t.Names)
	s.arrays(t.Arrays, t.Count)
	if t.GraphOf != nil {
		s.int32s(graphIDsFile, t.GraphOf, len(t.GraphOf))
	}
}

// labels writes the labels of the first type.
func (s *staging) labels(l *Labels) {
	if rows, columns := l.rows(); rows != nil {
		s.float32s(labelsFile, rows, len(rows)/columns, columns)
	} else if l.Class != nil {
		s.int64s(labelsFile, l.Class, len(l.Class))
	}
	s.names(classNamesFile, l.Names)
}

// relation writes the files of a relation.
func (s *staging) relation(r *Relation) {
	s.int64s(inEdges.indptr, r.Indptr, len(r.Indptr))
	s.int32s(inEdges.indices, r.Sources, len(r.Sources))
	if r.Weights != nil {
		s.float32s(inEdges.weights, r.Weights, len(r.Weights))
	}
	if r.EdgeColumns > 0 {
		s.float32s(inEdges.features, r.EdgeFeatures, len(r.Sources), r.EdgeColumns)
	}
	s.edgeSplit(r.EdgeSplit)
}

func (s *staging) splits(splits []Split) {
	if len(splits) == 0 {
		return
	}
	for part, file := range splitFiles {
		rows, width := make([][]int64, len(splits)), 0
		for k := range splits {
			rows[k] = *splits[k].Parts()[part]
			width = max(width, len(rows[k]))
		}
		if len(splits) == 1 {
			s.int64s(file, rows[0], width)
			continue
		}
		a := s.array(file, "<i8", len(splits), width)
		for _, row := range rows {
			a.int64s(row)
			a.int64s(slices.Repeat([]int64{-1}, width-len(row)))
		}
		a.close()
	}
}

// names writes a list of names, one per line; nothing where names is nil.
func (s *staging) names(file string, names []string) {
	if names == nil || s.err != nil {
		return
	}
	const copies, marks = 6, 4 // the encoder's buffers grow by doubling; each name has quotes and a line
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
func (s *staging) json(name string, value any) {
	if s.err != nil {
		return
	}
	var text []byte
	if text, s.err = json.MarshalIndent(value, "", "  "); s.err == nil {
		s.file(name, append(text, '\n'))
	}
}

// description writes graph.json, and the record of all files with it. It refuses a description that is longer
// than readers accept.
func (s *staging) description(d *description, symmetric []int) {
	if s.err != nil {
		return
	}
	text, err := json.MarshalIndent(d, "", "  ")
	switch length := len(text) + 1; {
	case err != nil:
		s.err = err
	case length > maxDescription:
		s.err = refusal.Graph.Errorf("the description of %d vertex types, %d relations and %d splits takes %d bytes, and a store has at most %d: "+
			"leave some out", len(d.Vertices), len(d.Relations), len(d.Vertices[0].Splits), length, maxDescription)
	default:
		s.file(descriptionFile, append(text, '\n'))
		s.record(symmetric)
	}
}

// file writes a whole file and brings it to disk.
func (s *staging) file(name string, data []byte) {
	s.completed()
	if s.err != nil {
		return
	}
	var f *os.File
	if f, s.err = s.create(name); s.err != nil {
		return
	}
	_, err := f.Write(data)
	sum := sha256.Sum256(data)
	s.err = errors.Join(err, s.complete(filepath.Join(s.sub, name), f, sum[:]))
}
