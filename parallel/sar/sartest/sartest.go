// Package sartest tests what every sar.Exchanger must do: Test goes through it, with rows and gradients that
// are computed by hand. A test of a package with an Exchanger calls it.
package sartest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// Kind is a kind of Exchanger.
type Kind struct {
	// Holders is the worker that holds each of so many partitions, which take turns; nil: each has a worker.
	Holders func(partitions int) []int
	// Replicas is in how many partitions the parts of a graph are chunks: part p is chunk p / Replicas of
	// partition p mod Replicas. Gradients then have tests of their own, as chunks drop some. 0: the parts are
	// the partitions.
	Replicas int
	// New makes what a worker computes. chunks are those of the vertices, in the order of the partitions.
	New func(e axis.Env, chunks []int32) *Worker
}

// Worker has the parts of a graph that a worker computes.
type Worker struct {
	Parts []Part
	// Forward and Backward call each with the index of each part, as in a pass. End ends the pass.
	Forward, Backward func(each func(k int))
	End               func()
}

// Part is a part of a graph.
type Part struct {
	sar.Exchanger
	Number int
	Edges  *edges.Edges // along Along
	Rows   *autograd.RowSet
}

// Along are the edges of the graphs of Test.
var Along = gnn.Along{Relation: graph.RelationName}

// division divides five vertices into parts. The edges are 2 → 0, 2 → 1, 3 → 0, 0 → 2, 0 → 3, 1 → 3, 2 → 4
// and 3 → 4.
type division struct {
	name   string
	owners []int32
	reads  []string     // the vertices whose rows each part reads of others
	sums   [][2]float32 // by vertex: the sum of its gradients, in even columns and in odd ones
}

// In the first column a gradient that part p returns is 4^p, in the second twice that, and so on in turn. It
// is added to 128.
var divisions = []division{
	{
		"three parts",
		[]int32{0, 0, 1, 2, 2},
		[]string{"2 3", "0", "0 1 2"},
		[][2]float32{{148, 168}, {144, 160}, {145, 162}, {129, 130}, {128, 128}},
	},
	{
		"an empty part between, and one at the end",
		[]int32{0, 0, 2, 3, 3},
		[]string{"2 3", "", "0", "0 1 2", ""},
		[][2]float32{{208, 288}, {192, 256}, {193, 258}, {129, 130}, {128, 128}},
	},
	{
		"a part for each vertex",
		[]int32{4, 3, 2, 1, 0},
		[]string{"2 3", "0 1", "0", "2", "2 3"},
		[][2]float32{{148, 168}, {132, 136}, {449, 770}, {385, 642}, {128, 128}},
	},
	{
		"one part has all",
		[]int32{1, 1, 1, 1, 1},
		[]string{"", "", ""},
		[][2]float32{{128, 128}, {128, 128}, {128, 128}, {128, 128}, {128, 128}},
	},
}

// rows are the rows of the vertices: v + 8·column. All numbers here are exact in bfloat16.
var rows = [][]float32{
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128},
	{1, 9, 17, 25, 33, 41, 49, 57, 65, 73, 81, 89, 97, 105, 113, 121, 129},
	{2, 10, 18, 26, 34, 42, 50, 58, 66, 74, 82, 90, 98, 106, 114, 122, 130},
	{3, 11, 19, 27, 35, 43, 51, 59, 67, 75, 83, 91, 99, 107, 115, 123, 131},
	{4, 12, 20, 28, 36, 44, 52, 60, 68, 76, 84, 92, 100, 108, 116, 124, 132},
}

// widths are the columns of the matrices whose rows share a message: fewer than a vector has, one more than
// two vectors, a matrix after another one, and none.
var widths = [][]int{{3}, {17}, {5, 1}, {1}, {0}}

// Test tests a kind of Exchanger.
func Test(t *testing.T, kind Kind) {
	for _, d := range divisions {
		for _, widths := range widths {
			for _, format := range []kernel.Format{kernel.AsStored, kernel.InBFloat16} {
				t.Run(fmt.Sprintf("%s/widths %v/format %d", d.name, widths, format), func(t *testing.T) {
					d.passes(t, kind, widths, format)
				})
			}
		}
	}
	if kind.Replicas == 0 {
		t.Run("a worker fails", func(t *testing.T) { failures(t, kind) })
	}
}

// run runs work on the workers of a kind. It returns what each part's worker panicked with, or nil.
func (d *division) run(t *testing.T, kind Kind, work func(m *member)) (outcomes []any) {
	t.Helper()
	list := graph.Edges{Source: []int32{2, 2, 3, 0, 0, 1, 2, 3}, Target: []int32{0, 1, 0, 2, 3, 3, 4, 4}}
	relation, err := graph.NewRelation(len(d.owners), list)
	require.NoError(t, err)
	assignment, chunks := kind.divide(d)
	shares, err := partition.Split(graph.Of(relation), assignment)
	require.NoError(t, err)
	holders, ends, end := connect(kind, len(shares))
	outcomes, memories := make([]any, len(shares)), make([]*tensor.Meter, 1+slices.Max(holders))
	for worker := range memories {
		memories[worker] = tensor.NewMeter()
	}
	var all sync.WaitGroup
	for rank := range shares {
		all.Go(func() {
			world := comm.New(ends[rank], 0)
			world.Begin()
			defer world.End()
			defer func() {
				if outcomes[rank] = recover(); outcomes[rank] != nil {
					world.Abort(fmt.Errorf("rank %d: %v", rank, outcomes[rank]))
				}
			}()
			team := kerneltest.Team(t, 1+holders[rank]%2, memories[holders[rank]])
			grid := mesh.Mesh{Stages: 1, Partitions: len(shares), Slices: 1}
			w := kind.New(axis.Env{Team: team, Groups: grid.Join(world), Share: shares[rank]}, chunks)
			work(&member{Worker: w, world: world, team: team})
			exchange.Must(world.Barrier(comm.Setup)) // others may be reading rows of this one
		})
	}
	all.Wait()
	end()
	for _, m := range memories {
		m.Close()
	}
	return outcomes
}

// divide returns the partitions of the vertices, and their chunks in the order of the partitions.
func (k Kind) divide(d *division) (a *partition.Assignment, chunks []int32) {
	a = &partition.Assignment{K: cmp.Or(k.Replicas, len(d.reads))}
	byPartition := make([][]int32, a.K)
	for _, part := range d.owners {
		p := part % int32(a.K)
		a.Parts, byPartition[p] = append(a.Parts, p), append(byPartition[p], part/int32(a.K))
	}
	return a, slices.Concat(byPartition...)
}

// connect connects so many ranks, of which holders are the workers. end closes these.
func connect(kind Kind, ranks int) (holders []int, ends []comm.Transport, end func()) {
	if kind.Holders == nil {
		for rank := range ranks {
			holders = append(holders, rank)
		}
		return holders, comm.InProcess(ranks), func() {}
	}
	holders = kind.Holders(ranks)
	ends = make([]comm.Transport, ranks)
	var shared []*comm.SharedWorker
	for _, link := range comm.InProcess(1 + slices.Max(holders)) {
		w := comm.NewSharedWorker(comm.New(link, 0), holders, spool{})
		for _, end := range w.Transports() {
			ends[end.Rank()] = end
		}
		shared = append(shared, w)
	}
	return holders, ends, func() {
		var all sync.WaitGroup
		for _, w := range shared {
			all.Go(func() { _ = w.Close() }) // it has the error of a worker that failed
		}
		all.Wait()
	}
}

// spool keeps messages in memory.
type spool struct{}

func (spool) Takes(comm.Kind, int) (memory int64, rests bool) { return 0, false }

func (spool) Put(_ comm.Kind, message []byte, _ comm.Path) (comm.Message, error) {
	return kept(slices.Clone(message)), nil
}

// kept is a message in a spool.
type kept []byte

func (m kept) Len() int               { return len(m) }
func (m kept) Ahead()                 {}
func (m kept) Drop()                  {}
func (m kept) Take(into []byte) error { copy(into, m); return nil }

// member is a worker of a test.
type member struct {
	*Worker
	world *comm.Comm
	team  *kernel.Team
}

// together waits for the other ranks of the worker, which have the same memory.
func (m *member) together() {
	if m.world.TakesTurns() {
		m.world.LocalBarrier()
	}
}

// vertices are the vertices of a part's rows.
func (p *Part) vertices() []int32 { return ids(p.Rows.IDs, p.Rows.Here) }

// ids are the vertices that a matrix lists; nil: the first n.
func ids(list *tensor.Matrix, n int) (all []int32) {
	if list != nil {
		return list.ReadInt32s()
	}
	for v := range int32(n) {
		all = append(all, v)
	}
	return all
}

// matrices are matrices of these widths, with a row for each row of a part.
func (m *member) matrices(p *Part, widths []int,
	value func(v int32, column int) float32,
) (all []*tensor.Matrix) {
	for _, width := range widths {
		x := m.team.Memory.New(tensor.Activations, p.Rows.Here, width)
		for row, v := range p.vertices() {
			for column := range width {
				x.WriteFloats()[row*width+column] = value(v, column)
			}
		}
		all = append(all, x)
	}
	return all
}

// values are the rows of a part.
func (m *member) values(p *Part, widths []int) []*tensor.Matrix {
	return m.matrices(p, widths, func(v int32, column int) float32 { return rows[v][column] })
}

// exchange does an exchange of a part, with visits that visit sees. It reports visits of other blocks than
// those of the edges, each once and in their order.
func (m *member) exchange(p *Part, format kernel.Format, t sar.Transfer, grads []*tensor.Matrix,
	visit func(v sar.Visit),
) (wrong error) {
	call := &sar.Call{Key: sar.Key{Path: "convs.0", Along: Along}, Edges: p.Edges, Format: format}
	if grads != nil {
		t.Sent = call.Form(grads)
	}
	var blocks []*edges.Block
	owned := grads != nil && t.Rows == nil
	yield := func(v sar.Visit) bool {
		if v.Team == nil {
			v.Team = m.team
		}
		pick := v.Picker(v.Team)
		if v.Pick == nil {
			v.Pick = pick.Rows
		}
		visit(v)
		pick.Release()
		return true
	}
	if owned {
		p.Begin(call, t, yield) // others may do the visits
		t.Grads = grads
		p.Exchange(call, t, yield)
		return nil
	}
	t.Grads = grads
	p.Begin(call, t, nil)
	p.Exchange(call, t, func(v sar.Visit) bool {
		blocks = append(blocks, v.Block)
		return yield(v)
	})
	if !slices.Equal(blocks, p.Edges.Remote()) {
		return fmt.Errorf("part %d: %d visits of %d blocks, or in another order", p.Number, len(blocks),
			len(p.Edges.Remote()))
	}
	return nil
}

// received lists the vertices whose rows a part has received. wrong are rows of other values.
func received(v sar.Visit, widths []int) (vertices []int32, wrong error) {
	vertices = ids(v.IDs, v.In.Cols)
	if len(v.Rows) != len(widths) {
		return vertices, fmt.Errorf("rows of %d matrices, want %d", len(v.Rows), len(widths))
	}
	for k, width := range widths {
		for row, u := range vertices {
			got := v.Rows[k].ReadFloats()[row*width : (row+1)*width]
			if want := rows[u][:width]; !slices.Equal(want, got) {
				wrong = errors.Join(wrong, fmt.Errorf("matrix %d, vertex %d: %v, want %v", k, u, got, want))
			}
		}
	}
	return vertices, wrong
}

// giveGradients sets the gradients of a visit of a part whose first gradient is such.
func giveGradients(v sar.Visit, first float32) {
	for _, d := range v.Grads {
		for i := range d.WriteFloats() {
			d.WriteFloats()[i] = first * float32(1+i%d.Cols%2)
		}
	}
}

// powers are the first gradients of the parts.
var powers = []float32{1, 4, 16, 64, 256}

// passes does three passes of every part: gradients with rows that are fetched again, with rows that are
// kept, and alone.
func (d *division) passes(t *testing.T, kind Kind, widths []int, format kernel.Format) {
	outcomes := d.run(t, kind, func(m *member) {
		for _, name := range []string{again, keeps, alone} {
			m.together()
			before := m.team.Memory.LiveTensors()
			m.together()
			p := &pass{
				division: d, member: m, t: t, name: name, widths: widths, format: format,
				xs: make([][]*tensor.Matrix, len(m.Parts)), buffers: make([][]*tensor.Matrix, len(m.Parts)),
			}
			m.Forward(p.forward)
			if kind.Replicas == 0 {
				m.Backward(p.backward)
			}
			m.End()
			for k := range m.Parts {
				exchange.Release(p.xs[k]...)
				exchange.Release(p.buffers[k]...)
			}
			m.together()
			assert.Equal(t, before, m.team.Memory.LiveTensors(), "%s: bytes that rank %d keeps", name,
				m.world.Rank())
		}
	})
	for rank, outcome := range outcomes {
		if outcome != nil {
			t.Errorf("rank %d: %v", rank, outcome)
		}
	}
}

// The names of passes.
const (
	again = "fetches again"
	keeps = "keeps"
	alone = "gradients alone"
)

// pass is a pass of the parts of a worker.
type pass struct {
	*division
	*member
	t           *testing.T
	name        string
	widths      []int
	format      kernel.Format
	xs, buffers [][]*tensor.Matrix // by part
}

// forward fetches the rows that a part reads.
func (p *pass) forward(k int) {
	part := &p.Parts[k]
	p.xs[k] = p.values(part, p.widths)
	if p.name == keeps {
		for _, b := range part.Edges.Remote() {
			p.buffers[k] = append(p.buffers[k],
				exchange.FormOf(p.xs[k]).New(p.team.Memory, 1, b.In.Cols)...)
		}
	}
	p.fetch(k, sar.Transfer{}, nil)
}

// fetch does an exchange in which a part gets rows.
func (p *pass) fetch(k int, transfer sar.Transfer, grads []*tensor.Matrix) {
	part := &p.Parts[k]
	var read []int32
	transfer.Rows, transfer.Buffers = p.xs[k], p.buffers[k]
	wrong := p.exchange(part, p.format, transfer, grads, func(v sar.Visit) {
		vertices, wrong := received(v, p.widths)
		assert.NoError(p.t, wrong, "%s: part %d", p.name, part.Number)
		read = append(read, vertices...)
		giveGradients(v, powers[part.Number])
	})
	assert.NoError(p.t, wrong)
	slices.Sort(read)
	want := ""
	if part.Number < len(p.reads) { // replicas have equally many chunks
		want = p.reads[part.Number]
	}
	assert.Equal(p.t, want, strings.Trim(fmt.Sprint(read), "[]"), "%s: part %d reads", p.name, part.Number)
}

// backward adds the gradients of a part's rows to 128.
func (p *pass) backward(k int) {
	part := &p.Parts[k]
	grads := p.matrices(part, p.widths, func(int32, int) float32 { return 128 })
	if p.name == alone {
		reads := p.matrices(part, []int{1}, func(int32, int) float32 { return powers[part.Number] })
		wrong := p.exchange(part, p.format, sar.Transfer{Reads: reads}, grads, func(v sar.Visit) {
			giveGradients(v, v.Pick(reads[0]).ReadFloats()[0])
		})
		assert.NoError(p.t, wrong)
		exchange.Release(reads...)
	} else {
		p.fetch(k, sar.Transfer{Received: p.name == keeps}, grads)
	}
	for _, dx := range grads {
		for row, v := range part.vertices() {
			for column, got := range dx.ReadFloats()[row*dx.Cols : (row+1)*dx.Cols] {
				assert.Equal(p.t, p.sums[v][column%2], got, "%s: the gradient of vertex %d in column %d", p.name,
					v, column)
			}
		}
	}
	exchange.Release(grads...)
}

// failures has a worker fail before it exchanges rows, while it does, and before it exchanges gradients. The
// pass of each other worker ends with a Failure.
func failures(t *testing.T, kind Kind) {
	d := &divisions[0]
	const fails = 1
	for _, when := range []string{"before rows", "in a visit", "before gradients"} {
		outcomes := d.run(t, kind, func(m *member) {
			at := func(moment string) {
				if m.world.Rank() == fails && moment == when {
					panic("no more")
				}
			}
			var xs []*tensor.Matrix
			m.Forward(func(k int) {
				at("before rows")
				xs = m.values(&m.Parts[k], []int{3})
				exchange.Must(m.exchange(&m.Parts[k], kernel.AsStored, sar.Transfer{Rows: xs}, nil,
					func(sar.Visit) { at("in a visit") }))
			})
			m.Backward(func(k int) {
				at("before gradients")
				grads := m.values(&m.Parts[k], []int{3})
				exchange.Must(m.exchange(&m.Parts[k], kernel.AsStored, sar.Transfer{Rows: xs}, grads,
					func(v sar.Visit) { giveGradients(v, 1) }))
			})
			m.End()
		})
		for rank, outcome := range outcomes {
			f, is := outcome.(exchange.Failure)
			if rank == fails && outcome != "no more" ||
				rank != fails && (!is || !errors.Is(f.Err, comm.ErrAborted)) {
				t.Errorf("%s: rank %d ended with %v", when, rank, outcome)
			}
		}
	}
}
