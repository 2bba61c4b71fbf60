// Package dgltest writes graphs as DGL does, for tests: files of graphs and of tensors, and graphs that are
// divided into partitions.
package dgltest

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
)

// Tensor is an array in memory.
type Tensor struct {
	Code, Bits byte // of an element, as in DLPack
	Shape      []int64
	Data       []byte
}

// Of returns a tensor of numbers in row order; without a shape it has one dimension.
func Of[T int8 | uint8 | int16 | int32 | int64 | float32 | float64](values []T, shape ...int64) Tensor {
	if len(shape) == 0 {
		shape = []int64{int64(len(values))}
	}
	typ := reflect.TypeFor[T]()
	code := byte(0)
	switch typ.Kind() {
	case reflect.Uint8:
		code = 1
	case reflect.Float32, reflect.Float64:
		code = 2
	}
	return Tensor{code, byte(typ.Bits()), shape, bytesOf(values)}
}

// bytesOf are numbers as they stand in a file.
func bytesOf(numbers ...any) []byte {
	var b bytes.Buffer
	for _, n := range numbers {
		if err := binary.Write(&b, binary.LittleEndian, n); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// Rows returns the rows of a tensor at those places.
func (t Tensor) Rows(places []int) Tensor {
	picked := Tensor{t.Code, t.Bits, slices.Clone(t.Shape), []byte{}}
	width := 0
	if t.Shape[0] > 0 {
		width = len(t.Data) / int(t.Shape[0])
	}
	for _, k := range places {
		picked.Data = append(picked.Data, t.Data[k*width:(k+1)*width]...)
	}
	picked.Shape[0] = int64(len(places))
	return picked
}

// Tensors are tensors by name.
type Tensors map[string]Tensor

// The formats of a relation's edges.
const (
	COO = 1 << iota
	CSR
	CSC
)

// Graph is a graph by types.
type Graph struct {
	Vertices  []Vertices
	Relations []Relation
	Old       bool // as DGL wrote it before 1.0, with a single format
}

// Vertices are those of one type.
type Vertices struct {
	Type    string
	Count   int
	Tensors Tensors
}

// Relation is the edges of one type, in the order of their ids.
type Relation struct {
	Name           string
	Source, Target int // vertex types
	From, To       []int64
	Formats        int  // a set; 0: COO
	Sorted         bool // edges are sorted by the rows of the format, which then has no ids
	Tensors        Tensors
}

// writer appends the parts of a file.
type writer struct{ bytes.Buffer }

func (w *writer) put(numbers ...any) { w.Write(bytesOf(numbers...)) }

func (w *writer) text(s string) {
	w.put(uint64(len(s)))
	w.WriteString(s)
}

func (w *writer) tensor(t Tensor) {
	w.put(uint64(0xDD5E40F096B4A13F), uint64(0), int32(1), int32(0), int32(len(t.Shape)), t.Code, t.Bits,
		uint16(1), t.Shape, int64(len(t.Data)))
	w.Write(t.Data)
}

// named writes tensors in the order of their names. In DGL's own files they come in any order.
func (w *writer) named(all Tensors) {
	names := []string{}
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	w.put(uint64(len(names)))
	for _, name := range names {
		w.text(name)
		w.tensor(all[name])
	}
}

// compressed writes edges as rows of a matrix. Rows keep the edges' order. The edges' ids follow unless the
// edges are sorted by row.
func (w *writer) compressed(rows, columns int, row, column []int64, isSorted bool) {
	bounds, order := make([]int64, rows+1), make([]int64, len(row))
	for k, r := range row {
		order[k] = int64(k)
		bounds[r+1]++
	}
	for r := range rows {
		bounds[r+1] += bounds[r]
	}
	slices.SortStableFunc(order, func(a, b int64) int { return int(row[a] - row[b]) })
	sorted := make([]int64, len(row))
	for k, id := range order {
		sorted[k] = column[id]
	}
	w.put(uint64(0xDD6CD31205DFF127), int64(columns), int64(rows))
	w.tensor(Of(bounds))
	w.tensor(Of(sorted))
	if isSorted {
		order = nil
	}
	w.tensor(Of(order))
	w.put(uint8(0))
}

// meta writes a graph of types.
func (w *writer) meta(types int, from, to []int64) {
	w.put(uint64(0xDD3C5FFE20046ABF))
	w.compressed(types, types, from, to, false)
}

func (w *writer) relation(g *Graph, r *Relation) {
	formats := max(r.Formats, COO)
	code := int64(1)<<32 | int64(formats)
	if g.Old {
		code = map[int]int64{COO: 1, CSR: 2, CSC: 3}[formats]
	}
	w.put(uint64(0xDD2E60F0F6B4A127), code, int64(7))
	sources, targets := g.Vertices[r.Source].Count, g.Vertices[r.Target].Count
	for _, format := range []int{COO, CSR, CSC} {
		if formats&format == 0 {
			continue
		}
		types := 1
		if r.Source != r.Target {
			types = 2
		}
		w.meta(types, []int64{0}, []int64{int64(types - 1)})
		switch format {
		case COO:
			w.put(uint64(0xDD61FFD305DFF127), int64(targets), int64(sources))
			w.tensor(Of(r.From))
			w.tensor(Of(r.To))
			w.tensor(Of([]int64{}))
			w.put(uint16(0))
		case CSR:
			w.compressed(sources, targets, r.From, r.To, r.Sorted)
		case CSC:
			w.compressed(targets, sources, r.To, r.From, r.Sorted)
		}
	}
}

func (w *writer) graph(g *Graph) {
	w.put(uint64(0xDD589FBE35224ABF))
	var from, to, counts []int64
	for _, r := range g.Relations {
		from, to = append(from, int64(r.Source)), append(to, int64(r.Target))
	}
	w.meta(len(g.Vertices), from, to)
	w.put(uint64(len(g.Relations)))
	for k := range g.Relations {
		w.relation(g, &g.Relations[k])
	}
	for _, v := range g.Vertices {
		counts = append(counts, int64(v.Count))
	}
	w.put(uint64(len(counts)), counts, uint64(len(g.Vertices)))
	for _, v := range g.Vertices {
		w.named(v.Tensors)
	}
	w.put(uint64(len(g.Relations)))
	for _, r := range g.Relations {
		w.named(r.Tensors)
	}
	w.put(uint64(len(g.Vertices)))
	for _, v := range g.Vertices {
		w.text(v.Type)
	}
	w.put(uint64(len(g.Relations)))
	for _, r := range g.Relations {
		w.text(r.Name)
	}
}

// Graphs returns a file of graphs, with labels of the graphs.
func Graphs(labels Tensors, graphs ...*Graph) []byte {
	const header = 4096
	var w, before writer
	w.put(uint64(0xDD2E4FF046B4A13F), uint64(2), uint64(2), uint64(len(graphs)))
	w.Write(bytes.Repeat([]byte{0xaa}, header-w.Len())) // DGL leaves there what happened to be in memory
	before.named(labels)
	w.put(uint64(header + 8 + before.Len()))
	w.named(labels)
	starts := []uint64{}
	for _, g := range graphs {
		starts = append(starts, uint64(w.Len()))
		w.graph(g)
	}
	length := uint64(8 + 8*len(starts))
	w.put(length, uint64(len(starts)), starts, length)
	return w.Bytes()
}

// File returns a file of tensors.
func File(all Tensors) []byte {
	var w writer
	w.put(uint64(0xDD5A9FBE3FA2443F), uint64(len(all)))
	w.named(all)
	return w.Bytes()
}

// Names is what a version of DGL calls things in divided graphs.
type Names int

// The versions.
const (
	Modern Names = iota // from 1.0 on: edge types by their ends
	Older               // up to 0.9: edge types by their names, and vertices' ids from before
	Oldest              // before 0.6: one type, whose ranges come as their ends, and keys without a type
)
