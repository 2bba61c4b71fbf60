// Package program holds models as data: lists of operations on rows of vertices, rows of edges and
// parameters. A tracer makes such a list of a user's own PyTorch module. The package checks a program, finds
// the aggregations in it, and describes it as blocks of package gnn, so that it runs on every axis.
//
// Package setting reads the program of --program, which weft.compile and weft.train of Python write, and a
// worker builds its blocks.
package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"weft/internal/refusal"
)

// version is the version of the format.
const version = 1

// Limits of a file.
const (
	maxBytes      = 64 << 20
	maxOperations = 100_000
	maxNumbers    = 1_000_000 // in all constants
	maxDims       = 8
	maxSize       = 1 << 31 // elements of a parameter
	maxTensor     = 1 << 24 // elements of a tensor that is computed from parameters
	maxRow        = 1 << 20 // elements of a row
	maxTimes      = 100     // how often a step may move running statistics
)

// Program is a model: a list of operations, each of which makes one value from earlier ones.
type Program struct {
	Version int    `json:"version"`
	Class   string `json:"class"` // the name of the model's class
	// Relations are the relations of a graph of several types, each with its vertex types.
	Relations  []Relation  `json:"relations,omitempty"`
	Parameters []Parameter `json:"parameters"`
	Operations []Operation `json:"operations"`
	Output     int         `json:"output"` // the value that is the model's output
	// Others are further outputs, each of another vertex type.
	Others []int `json:"others,omitempty"`
	// EdgeOutputs are outputs that are rows of stored edges, each of another relation.
	EdgeOutputs []int `json:"edge_outputs,omitempty"`

	// Updates are the new values of buffers after a training pass, for later passes.
	Updates []Update `json:"updates,omitempty"`

	parameters map[string]*Parameter // by name
	relations  map[string]*Relation
	types      []Type   // the types of the values
	built      []*value // the outputs after rewriting: first of vertices, then of edges
	scored     string   // another relation whose edges the output scores; "": none
	// the program is one of Undecoded: built are the values that decoder reads
	undecoded bool
	decoded   *value                       // of an undecoded program: its output of edges
	decoder   *region                      // of an undecoded program: the region that computes decoded
	updates   []*value                     // the values of Updates, after rewriting
	paths     map[*value]string            // module paths of the values that aggregate
	weights   map[string]bool              // the parameters that only products read, as their weights
	every     int                          // the number of Keeping
	maps      *columnMaps                  // of the values that are built
	sparse    func(vertexType string) bool // reports whether a vertex type has sparse features; nil: none has
}

// Parameter is a parameter or a buffer of the model. Its values come with the program, in a file of weights.
type Parameter struct {
	Name    string `json:"name"`
	Shape   []int  `json:"shape"`
	Trained bool   `json:"trained,omitempty"` // has a gradient
	// Aliases are further names of the same tensor in the model.
	Aliases []string `json:"aliases,omitempty"`
	// Rate is a factor of the learning rate, and Decay a weight decay, of this parameter alone; nil: as for
	// all parameters.
	Rate  *float64 `json:"rate,omitempty"`
	Decay *float64 `json:"decay,omitempty"`
}

// Relation is one type of edges, with the types of the vertices at its ends.
type Relation struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Target string `json:"target"`
}

// end returns the vertex type at an end.
func (r *Relation) end(end string) string {
	if end == "source" {
		return r.Source
	}
	return r.Target
}

// Operation makes a value from the values with the numbers In. Op decides which other attributes it has.
type Operation struct {
	Op   string `json:"op"`
	In   []int  `json:"in,omitempty"`
	Path string `json:"path,omitempty"` // the module path: it names dropout masks and caches
	Line string `json:"line,omitempty"` // the line of the model's source, for messages

	Name        string   `json:"name,omitempty"`
	TypeName    string   `json:"of,omitempty"` // in a graph of several types, the vertex type or the relation
	Shape       []int    `json:"shape,omitempty"`
	Values      []number `json:"values,omitempty"`
	Rows        string   `json:"rows,omitempty"`
	End         string   `json:"end,omitempty"`
	Loops       string   `json:"loops,omitempty"`
	Reduce      string   `json:"reduce,omitempty"`
	Dim         int      `json:"dim,omitempty"`
	Dims        []int    `json:"dims,omitempty"`
	Keep        bool     `json:"keep,omitempty"`
	Start       int      `json:"start,omitempty"`
	Stop        int      `json:"stop,omitempty"`
	Step        int      `json:"step,omitempty"`
	P           float64  `json:"p,omitempty"`
	Alpha       *float64 `json:"alpha,omitempty"`
	Slope       *float64 `json:"slope,omitempty"`
	Beta        *float64 `json:"beta,omitempty"`
	Threshold   *float64 `json:"threshold,omitempty"`
	Min         *number  `json:"min,omitempty"`
	Max         *number  `json:"max,omitempty"`
	Strict      bool     `json:"strict,omitempty"`
	First       bool     `json:"first,omitempty"`
	Approximate string   `json:"approximate,omitempty"`
	Eps         float64  `json:"eps,omitempty"`
	Momentum    *float64 `json:"momentum,omitempty"`
	Times       int      `json:"times,omitempty"`
	Weight      string   `json:"weight,omitempty"`
	Bias        string   `json:"bias,omitempty"`
	Mean        string   `json:"mean,omitempty"`
	Variance    string   `json:"variance,omitempty"`
	Batches     string   `json:"batches,omitempty"`
	// Differentiable says that a caller's loop may ask for the gradients of the edges' weights or features.
	Differentiable bool `json:"differentiable,omitempty"`

	Weighted bool `json:"-"` // of an aggregation: each row counts as much as its edge's weight
	Divisor  bool `json:"-"` // of a scatter: a softmax divides by its result
	Masked   bool `json:"-"` // of a scatter without a gradient: it is a part of one that has messages
}

// number is a number. In JSON, infinities and NaN are strings.
type number float64

// float returns the number as float32; nil for nil.
func (n *number) float() *float32 {
	if n == nil {
		return nil
	}
	f := float32(*n)
	return &f
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"inf"`:
		*n = number(math.Inf(1))
	case `"-inf"`:
		*n = number(math.Inf(-1))
	case `"nan"`:
		*n = number(math.NaN())
	default:
		return json.Unmarshal(text, (*float64)(n))
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	switch f := float64(n); {
	case math.IsInf(f, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-inf"`), nil
	case math.IsNaN(f):
		return []byte(`"nan"`), nil
	default:
		return json.Marshal(f)
	}
}

// Read reads a program and checks it. An error is a refusal.
func Read(r io.Reader) (*Program, error) { return read(r, (*Program).check) }

func read(r io.Reader, check func(*Program) error) (*Program, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, refusal.Errorf("a program of more than %d MB; trace a smaller model", maxBytes>>20)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	p := &Program{}
	if err := d.Decode(p); err != nil {
		return nil, refusal.Errorf("no program: %s; trace the model again", plain(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refusal.Errorf("no program: text follows its end; trace the model again")
	}
	if p.Version != version {
		return nil, refusal.Errorf("a program of version %d, and this weft reads version %d; trace the model "+
			"again with the Python package of this version", p.Version, version)
	}
	if err := check(p); err != nil {
		return nil, refusal.Errorf("program: %w; trace the model again", err)
	}
	return p, nil
}

// plain removes the names of Go types from an error of package json.
func plain(err error) string {
	return strings.NewReplacer("json: ", "", "Go struct field Program.", "", "Go struct field Operation.", "",
		"Go value of type ", "").Replace(err.Error())
}

// Text returns the program as JSON.
func (p *Program) Text() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // all fields can be written as JSON
	}
	return text
}

// check checks everything that does not depend on the graph, and sets the values' types.
func (p *Program) check() error {
	for _, check := range []func() error{
		p.checkParameters, p.checkRelations, p.checkOperations, p.checkReversed,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	for i, o := range p.Operations {
		if o.Op == opLogits || o.Op == opLabels {
			return fmt.Errorf("%s: is read by a loss alone", p.describe(i))
		}
	}
	if err := p.checkOutputs(); err != nil {
		return err
	}
	p.rebuild(allStates)
	if err := p.checkUpdates(); err != nil {
		return err
	}
	return nil
}

// checkOutputs checks that outputs are rows of vertices, each of another type, and that outputs of edges are
// rows of stored edges, each of another relation.
func (p *Program) checkOutputs() error {
	known := map[string]bool{}
	for _, at := range p.outputs() {
		t := p.types[at]
		if t.Rows != Vertices || len(t.Shape) > 1 || size(t.Shape) == 0 {
			return fmt.Errorf("output: %s, and a model's output has a row of numbers for each vertex", t)
		}
		if known[t.TypeName] {
			return fmt.Errorf("output: two have rows of vertices of %q", t.TypeName)
		}
		known[t.TypeName] = true
	}
	known = map[string]bool{}
	for _, at := range p.EdgeOutputs {
		t := p.types[at]
		if t.Rows != Edges || t.Loops != stored || len(t.Shape) > 1 || size(t.Shape) == 0 {
			return fmt.Errorf("output: %s, and one of edges has a row of numbers for each stored edge", t)
		}
		if known[t.TypeName] {
			return fmt.Errorf("output: two have rows of edges of %q", t.TypeName)
		}
		known[t.TypeName] = true
	}
	return nil
}

// rebuild builds the program, which keeps states of edges as Keeping says.
func (p *Program) rebuild(every int) {
	p.every, p.maps = every, newColumnMaps()
	p.built = p.build(every, slices.Concat(p.outputs(), p.EdgeOutputs)...)
	p.weights, p.paths = p.onlyWeights(), pathsOf(p.built)
	if p.undecoded {
		p.decode()
	}
}

// outputs returns the numbers of the values that are outputs of vertices.
func (p *Program) outputs() []int { return append([]int{p.Output}, p.Others...) }

// checkOperations checks each operation, and sets the values' types.
func (p *Program) checkOperations() error {
	if n := len(p.Operations); n > maxOperations {
		return fmt.Errorf("%d operations, and at most %d are read", n, maxOperations)
	}
	for _, at := range slices.Concat(p.outputs(), p.EdgeOutputs) {
		if n := len(p.Operations); at < 0 || at >= n {
			return fmt.Errorf("output: there is no value %d, as there are %d operations", at, n)
		}
	}
	numbers := 0
	for i := range p.Operations {
		o := &p.Operations[i]
		if numbers += len(o.Values); numbers > maxNumbers {
			return fmt.Errorf("constants of more than %d numbers", maxNumbers)
		}
		t, err := p.infer(i)
		if err != nil {
			return fmt.Errorf("%s: %w", p.describe(i), err)
		}
		most := maxTensor
		switch {
		case t.Rows != None:
			most = maxRow
		case o.Op == "parameter":
			most = maxSize
		}
		if len(t.Shape) > maxDims || t.size() > most {
			return fmt.Errorf("%s: a shape of %v is too large", p.describe(i), t.Shape)
		}
		p.types = append(p.types, t)
	}
	return nil
}

// checkReversed refuses a program that reads features of edges along reversed edges: features are stored for
// the edges in their own direction.
func (p *Program) checkReversed() error {
	featured := make([]bool, len(p.Operations))
	for i, o := range p.Operations {
		reads := o.Op == "edge_features" || slices.ContainsFunc(o.In, func(v int) bool { return featured[v] })
		if reads && o.End == "source" {
			return fmt.Errorf("%s: aggregates features of edges at the edges' sources, which weft does not; "+
				"reverse the edges of the graph, and aggregate at their targets", p.describe(i))
		}
		featured[i] = reads && p.types[i].Rows == Edges
	}
	return nil
}

func (p *Program) checkParameters() error {
	p.parameters = map[string]*Parameter{}
	for i := range p.Parameters {
		q := &p.Parameters[i]
		switch {
		case q.Name == "" || p.parameters[q.Name] != nil:
			return fmt.Errorf("two parameters or none called %q", q.Name)
		case len(q.Shape) > maxDims || size(q.Shape) > maxSize || slices.ContainsFunc(q.Shape, notPositive):
			return fmt.Errorf("parameter %q: impossible shape %v", q.Name, q.Shape)
		case q.Rate != nil && *q.Rate < 0 || q.Decay != nil && *q.Decay < 0:
			return fmt.Errorf("parameter %q: a rate or a decay below 0", q.Name)
		}
		p.parameters[q.Name] = q
	}
	return nil
}

func (p *Program) checkRelations() error {
	p.relations = map[string]*Relation{}
	for i := range p.Relations {
		r := &p.Relations[i]
		if r.Name == "" || r.Source == "" || r.Target == "" || p.relations[r.Name] != nil {
			return fmt.Errorf("two relations called %q, or one without a name or the types of its ends", r.Name)
		}
		p.relations[r.Name] = r
	}
	return nil
}

func notPositive(n int) bool { return n < 1 }

// describe names operation i in an error.
func (p *Program) describe(i int) string {
	o := &p.Operations[i]
	text := fmt.Sprintf("operation %d (%s)", i, o.Op)
	if o.Line != "" {
		text += " of " + o.Line
	}
	return text
}

// Parameter returns the parameter of that name; nil: there is none, or p is nil.
func (p *Program) Parameter(name string) *Parameter {
	if p == nil {
		return nil
	}
	return p.parameters[name]
}

// Names returns the names of the parameters and buffers.
func (p *Program) Names() (names []string) {
	for _, q := range p.Parameters {
		names = append(names, q.Name)
	}
	return names
}

// relation returns the relation of that name; nil: there is none. A program for a graph of one relation has
// no names: it returns a relation between vertices without a type.
func (p *Program) relation(name string) *Relation {
	if name == "" && len(p.Relations) == 0 {
		return &Relation{}
	}
	return p.relations[name]
}

// size returns the number of elements of a shape, or more than maxSize if it is larger than that.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		if d != 0 && n > maxSize/max(1, d) {
			return maxSize + 1
		}
		n *= d
	}
	return n
}

// onlyWeights returns the parameters that only products read, as their weights.
func (p *Program) onlyWeights() map[string]bool {
	only := map[string]bool{}
	for _, q := range p.Parameters {
		only[q.Name] = len(q.Shape) == 2
	}
	for _, v := range reachable(p.built...) {
		for k, x := range v.in {
			if x.op == "parameter" && (v.op != "linear" || k != 1) {
				only[x.o.Name] = false
			}
		}
	}
	return only
}
