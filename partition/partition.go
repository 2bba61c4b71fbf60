// Package partition divides a graph among workers. It assigns each vertex to a partition, by METIS or
// another method. It counts the halo: the vertices of other partitions that a partition's edges read. It
// makes a Share for each partition: its vertices with features and labels, and the edges into and out of
// them. Shares are in memory, or stored with the graph. It also divides a partition's vertices into the
// chunks of a pipeline.
//
// The command partition, and each run on a mesh that has none yet, divide by it.
package partition

import (
	"context"
	"math"
	"slices"
	"time"

	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// The methods of Assign, DGL, the method of partitions that DGL made, and Bisection.
const (
	Metis  = "metis"  // few edges between partitions of about equal weight
	Stream = "stream" // like metis, in memory that grows with the vertices only
	Random = "random" // a seeded permutation, divided evenly
	Range  = "range"  // contiguous ids
	File   = "file"   // read from a file that a partitioner wrote
	DGL    = "dgl"    // made by DGL, and imported with the graph; not a method of Assign
	// Bisection is Bisect of the positions of the vertices, which a store does not have: not a method of
	// Assign.
	Bisection = "bisection"
)

// The quantities that can be balanced.
const (
	ByVertices = "vertices"
	ByEdges    = "edges" // vertices, and in-edges plus one for each vertex
	ByTrain    = "train" // vertices, and training vertices
	// AutoBalance is ByVertices, or ByEdges where that leaves less work to the busiest partition. The method
	// must be able to balance edges.
	AutoBalance = "auto"
)

// MaxPartitions bounds K: counts between all pairs of partitions take K² memory.
const MaxPartitions = 1024

// Methods lists the methods of Assign, the default first.
func Methods() []string { return []string{Metis, Stream, Random, Range, File} }

// StoredMethods lists the methods of stored partitions: those of Assign, and DGL.
func StoredMethods() []string { return append(Methods(), DGL) }

// Balances lists the quantities that can be balanced, the default first, and AutoBalance.
func Balances() []string { return []string{ByVertices, ByEdges, ByTrain, AutoBalance} }

// Assignment says which partition each vertex belongs to. A partition may be empty.
type Assignment struct {
	K       int     // partitions
	Parts   []int32 // len V: the partition of each vertex, 0…K−1
	Method  string
	Seconds float64 // time of the method
	Balance string
	Seed    uint64
	Split   int // the split whose training vertices were balanced and are counted
}

// Options choose a method for Assign.
type Options struct {
	K      int    // partitions, 1 to V
	Method string // one of Methods; empty: the first
	// File is the input of the method File: a number for each vertex, one per line, as METIS, KaHIP and
	// Mt-KaHyPar write it.
	File string
	// Balance is one of Balances; empty: the first. metis, stream and range know ByEdges; metis and stream
	// know ByTrain.
	Balance string
	Seed    uint64 // seeds metis, stream and random
	Split   int    // the split whose training vertices are balanced and counted
	// Timeout is how long METIS may be idle, as a stopped process is, before it is killed; 0: no limit. METIS
	// may work for any time.
	Timeout  time.Duration
	Progress graph.Progress // told by metis, as one stage, and by stream, pass by pass
}

// Validate refuses options that no graph allows. Errors name the flags of weft partition.
func (o *Options) Validate() error {
	method, balance := o.method(), o.balance()
	switch {
	case method == DGL:
		return refusal.Errorf("partitions by dgl come with a graph that DGL divided, and are not made: " +
			"import the JSON file that DGL wrote")
	case !slices.Contains(Methods(), method):
		return refusal.Errorf("unknown partition method %q; %s", method, suggest.OneOf(method, Methods()))
	case !slices.Contains(Balances(), balance):
		return refusal.Errorf("--balance %s: unknown balance; %s", balance,
			suggest.OneOf(balance, Balances()))
	case o.K < 1 || o.K > MaxPartitions:
		return refusal.Errorf("--partitions %d: give between 1 and %d", o.K, MaxPartitions)
	case o.Split < 0:
		return refusal.Errorf("--split %d: splits count from 0", o.Split)
	case method == File && o.File == "":
		return refusal.Errorf("the partition method file needs --file, which names a file with the " +
			"partition of each vertex on a line")
	case method != File && o.File != "":
		return refusal.Errorf("--file %s: the partition method %s reads no file; give --method file", o.File,
			method)
	case balance == ByEdges && !balancesEdges(method):
		return refusal.Errorf("the partition method %s does not balance edges; take metis, stream or range",
			method)
	case balance == ByTrain && method != Metis && method != Stream:
		return refusal.Errorf("the partition method %s does not balance training vertices; take metis or "+
			"stream", method)
	}
	return nil
}

func (o *Options) method() string { return orFirst(o.Method, Methods()) }

func (o *Options) balance() string { return orFirst(o.Balance, Balances()) }

func balancesEdges(method string) bool { return method == Metis || method == Stream || method == Range }

func orFirst(choice string, choices []string) string {
	if choice == "" {
		return choices[0]
	}
	return choice
}

// Assign divides the vertices of a graph that passes Check. The same options give the same assignment. Assign
// refuses more partitions than vertices, and options that the method cannot keep on this graph.
func Assign(ctx context.Context, g *graph.Graph, o Options) (*Assignment, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.K > g.Vertices() {
		return nil, refusal.Errorf("%d partitions of %d vertices: give at most one for each vertex", o.K,
			g.Vertices())
	}
	if err := checkPairs(g, o.K); err != nil {
		return nil, err
	}
	if (o.balance() == ByTrain || o.Split > 0) && o.Split >= len(g.Types[0].Splits) {
		return nil, refusal.Graph.Errorf("the graph has %d splits, hence no training vertices of split %d",
			len(g.Types[0].Splits), o.Split)
	}
	var a *Assignment
	started := time.Now()
	err := g.Guard(func() (err error) {
		a, err = balanced(ctx, g, o)
		return err
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	a.Seconds = time.Since(started).Seconds()
	return a, nil
}

// checkPairs refuses more partitions than a description can count the halos of.
func checkPairs(g *graph.Graph, k int) error {
	if n := len(g.Relations); n > 1 && n*k*k > maxPairs {
		return refusal.Errorf("%d partitions: a graph of %d relations is divided into %d at most", k, n,
			int(math.Sqrt(float64(maxPairs/n))))
	}
	return nil
}

// worthEdges bounds the work of the busiest partition, divided by the mean. AutoBalance balances vertices up
// to it.
const worthEdges = 1.1

// balanced assigns the vertices, and says by which balance.
func balanced(ctx context.Context, g *graph.Graph, o Options) (*Assignment, error) {
	auto := o.balance() == AutoBalance
	if auto {
		o.Balance = ByVertices
	}
	parts, err := assign(ctx, g, &o)
	a := &Assignment{
		K: o.K, Parts: parts, Method: o.method(), Balance: o.balance(), Seed: o.Seed, Split: o.Split,
	}
	if err != nil || !auto || o.K == 1 || !balancesEdges(o.method()) {
		return a, err
	}
	most, mean, err := a.work(g)
	if err != nil || most <= worthEdges*mean {
		return a, err
	}
	o.Balance = ByEdges
	b := *a
	b.Balance = o.Balance
	if b.Parts, err = assign(ctx, g, &o); err != nil {
		return nil, err
	}
	if less, _, err := b.work(g); err != nil || less < most {
		return &b, err
	}
	return a, nil
}

// work returns the work of the busiest partition, and the mean work.
func (a *Assignment) work(g *graph.Graph) (most, mean float64, err error) {
	s, err := measure(g, a)
	if err != nil {
		return 0, 0, err
	}
	for p := range a.K {
		work := s.Work(p)
		most, mean = max(most, work), mean+work/float64(a.K)
	}
	return most, mean, nil
}

func assign(ctx context.Context, g *graph.Graph, o *Options) ([]int32, error) {
	switch o.method() {
	case Random:
		return eachType(g, func(n int) []int32 { return random(n, o.K, o.Seed) }), nil
	case Range:
		if o.balance() == ByEdges {
			in, err := union(g)
			if err != nil {
				return nil, err
			}
			return rangesOfEdges(in.Indptr, o.K), nil
		}
		return eachType(g, func(n int) []int32 { return ranges(n, o.K) }), nil
	case File:
		return readFile(o.File, g.Vertices(), o.K)
	case Stream:
		return byStream(ctx, g, o)
	}
	return byMetis(ctx, g, o)
}

// eachType assigns the vertices of each type separately.
func eachType(g *graph.Graph, assign func(n int) []int32) (parts []int32) {
	for _, t := range g.Types {
		parts = append(parts, assign(t.Count)...)
	}
	return parts
}

// check refuses an assignment that does not fit the graph's vertices.
func (a *Assignment) check(g *graph.Graph) error {
	if a.K < 1 || a.K > MaxPartitions {
		return refusal.Errorf("%d partitions: give between 1 and %d", a.K, MaxPartitions)
	}
	if err := checkPairs(g, a.K); err != nil {
		return err
	}
	if len(a.Parts) != g.Vertices() {
		return refusal.Errorf("an assignment of %d vertices does not fit a graph of %d; partition the "+
			"graph again", len(a.Parts), g.Vertices())
	}
	for v, p := range a.Parts {
		if p < 0 || int(p) >= a.K {
			return refusal.Errorf("vertex %d is assigned to partition %d of %d; partition the graph again", v,
				p, a.K)
		}
	}
	return nil
}
