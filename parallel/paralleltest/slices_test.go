package paralleltest_test

import (
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
)

// TestTwoSlices: rows are split into columns, today's propagation runs inside along all edges, and its result
// is gathered back: NeutronTP's coupled form, alone and on partitions.
func TestTwoSlices(t *testing.T) {
	for _, m := range []mesh.Mesh{{Stages: 1, Partitions: 1, Slices: 2}, {Stages: 1, Partitions: 2, Slices: 2}, {Stages: 1, Partitions: 1, Slices: 3}} {
		t.Run(paralleltest.Name(m), func(t *testing.T) {
			paralleltest.Propagators(t, m, newSlices, "AggregateLinear", "Propagate") // Attend needs complete rows
			paralleltest.Engines(t, paralleltest.Case{Mesh: m, Engine: newSlices.Engine, Models: []string{"mlp", "gcn", "sage", "gin", paralleltest.InitialResidual}, Tolerance: 2e-5})
		})
	}
}

var newSlices paralleltest.Axis = func(c engine.Config) (engine.Axis, error) {
	inner, err := sar.New(c.Team, c.Groups, c.Share, sar.Options{})
	if err != nil {
		return nil, err
	}
	s := &slices{Partition: inner, config: c, starts: cuts(c.Share.Values.Rows, c.Groups.Mesh.Slices)}
	for row := s.starts[c.Groups.Slice]; row < s.starts[c.Groups.Slice+1]; row++ {
		s.ids = append(s.ids, c.Share.Values.ID(row))
	}
	s.rows = autograd.RowsOf(c.Team, s.ids, len(s.ids), c.Share.Whole.Vertices, exchange.Peers{Comm: c.Groups.Replicas})
	return s, nil
}

// slices is a tensor axis in two operations: a worker holds some rows of a partition, and aggregates some
// columns of all of its rows.
type slices struct {
	*sar.Partition // of the slices
	config         engine.Config
	starts         []int // of each worker's rows among the partition's
	ids            []int32
	rows           *autograd.RowSet
}

func (s *slices) Vertices() []int32      { return s.ids }
func (s *slices) Rows() *autograd.RowSet { return s.rows }

func (s *slices) Propagator(site string, along gnn.Along) gnn.Propagator {
	return &propagator{s.Partition.Propagator(site, along), s}
}

type propagator struct {
	gnn.Propagator // inside a slice
	*slices
}

func (p *propagator) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p.Propagate(autograd.Linear(x, w), r, gnn.Once)
}

func (p *propagator) Propagate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	x = autograd.Dense(x)
	split := p.move(x, p.Partition.Rows(), x.Cols(), p.split, p.gather)
	return p.move(p.Propagator.Propagate(split, r, k), p.rows, x.Cols(), p.gather, p.split)
}

// move is one of the two, which are each other's inverse and adjoint.
func (s *slices) move(x *autograd.Var, rows *autograd.RowSet, cols int, there, back func(*tensor.Matrix, int) *tensor.Matrix) *autograd.Var {
	return x.Tape().Record(autograd.Op{
		Value: there(x.Value(), cols), Inputs: []*autograd.Var{x}, Rows: rows, Reads: true,
		Backward: func(g *tensor.Matrix) {
			x.AddGrad(back(g, cols))
			g.Release()
		},
	})
}

// split turns own rows of so many columns into own columns of all rows.
func (s *slices) split(x *tensor.Matrix, cols int) *tensor.Matrix {
	c, own := cuts(cols, s.config.Groups.Mesh.Slices), s.config.Groups.Slice
	z := s.config.Team.Memory.New(tensor.Activations, s.starts[len(s.starts)-1], c[own+1]-c[own])
	s.exchange(s.ownRows(x), s.ownColumns(z))
	return z
}

// gather turns them back.
func (s *slices) gather(z *tensor.Matrix, cols int) *tensor.Matrix {
	x := s.config.Team.Memory.New(tensor.Activations, len(s.ids), cols)
	s.exchange(s.ownColumns(z), s.ownRows(x))
	return x
}

// ownRows and ownColumns are what goes to, or comes from, each worker of a matrix in either layout.
func (s *slices) ownRows(x *tensor.Matrix) func(k int) view {
	c := cuts(x.Cols, s.config.Groups.Mesh.Slices)
	return func(k int) view { return view{x, 0, x.Rows, c[k], c[k+1]} }
}

func (s *slices) ownColumns(z *tensor.Matrix) func(k int) view {
	return func(k int) view { return view{z, s.starts[k], s.starts[k+1], 0, z.Cols} }
}

// cuts are where each of k shares of n begins, and n.
func cuts(n, k int) []int {
	starts := []int{0}
	for i := range k {
		starts = append(starts, n*(i+1)/k)
	}
	return starts
}

// view is some rows and columns of a matrix.
type view struct {
	*tensor.Matrix
	top, bottom, left, right int
}

// each calls f with the elements of each of the rows, and of a packed copy.
func (v view) each(packed []byte, f func(mine, copied []byte)) {
	size := v.Element.Size()
	for row := v.top; row < v.bottom; row++ {
		width := (v.right - v.left) * size
		f(v.Bytes()[(row*v.Cols+v.left)*size:][:width], packed[(row-v.top)*width:][:width])
	}
}

// exchange sends a view to each worker, and receives one of each.
func (s *slices) exchange(from, to func(k int) view) {
	n, planning := s.config.Groups.Mesh.Slices, s.config.Team.Planning()
	send, receive := make([][]byte, n), make([][]byte, n)
	room := func(v view) []byte { return make([]byte, (v.bottom-v.top)*(v.right-v.left)*v.Element.Size()) }
	for k := range n {
		send[k], receive[k] = room(from(k)), room(to(k))
		if !planning {
			from(k).each(send[k], func(mine, copied []byte) { copy(copied, mine) })
		}
	}
	exchange.Must(s.config.Groups.Slices.AllToAll(comm.ToSlices, send, receive))
	for k := 0; k < n && !planning; k++ {
		to(k).each(receive[k], func(mine, copied []byte) { copy(mine, copied) })
	}
}
