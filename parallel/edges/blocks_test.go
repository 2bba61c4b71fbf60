package edges

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// arrow is an edge between positions.
type arrow struct {
	source, target int32
	weight         float32
}

// divided is a graph divided into partitions. Position p is vertex idOf(p).
type divided struct {
	starts []int
	arrows []arrow
}

func idOf(position int32) int32 { return 3*position + 1 }

// tangled has duplicate edges, self loops (some twice), a hub, and in each partition vertices without edges.
// The second partition needs many rows of the first; the third needs few.
func tangled() divided {
	d, r := divided{starts: []int{0, 3700, 4300, 4340}}, rand.New(rand.NewPCG(4, 4))
	add := func(source, target int) {
		d.arrows = append(d.arrows, arrow{int32(source), int32(target), .5 + float32(r.IntN(16))/8})
	}
	for range 6000 {
		add(r.IntN(4330), r.IntN(4330))
	}
	for v := range 1500 {
		add(2*v, 3700+v%600) // to the second
		add(3700+v%7, v)     // few of the second
		if v%5 == 0 {
			add(v, v)
			add(v, 9)
		}
		if v%10 == 0 {
			add(v, v)
			add(v, 9)
		}
	}
	for v := range 20 {
		add(3700+29*v, 3700+29*v)
		add(4300+2*v, 4300+2*v)
		add(10*v, 4300+v%3)
		add(4300, 3700+20*v)
	}
	return d
}

// vertices returns how many vertices there are.
func (d *divided) vertices() int { return d.starts[len(d.starts)-1] }

// holder returns the partition of a position.
func (d *divided) holder(position int32) int {
	p, found := slices.BinarySearch(d.starts, int(position))
	if !found {
		p--
	}
	return p
}

// needs returns the rows of partition q, from 0, that the selected rows of partition p need, ascending.
func (d *divided) needs(p, q int, takes func(row int32) bool) (rows []int32) {
	for _, a := range d.arrows {
		if d.holder(a.target) == p && d.holder(a.source) == q && takes(a.target) {
			rows = append(rows, a.source-int32(d.starts[q]))
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

func everyRow(int32) bool { return true }

// source says where partition p reads edges from; weighted says whether the edges have weights.
func (d *divided) source(t *testing.T, team *kernel.Team, p int, weighted bool) Source {
	t.Helper()
	k, n := len(d.starts)-1, d.starts[p+1]-d.starts[p]
	var list graph.Edges
	for _, a := range d.arrows {
		if d.holder(a.target) == p {
			list.Source, list.Target = append(list.Source, a.source),
				append(list.Target, a.target-int32(d.starts[p]))
			if weighted {
				list.Weights = append(list.Weights, a.weight)
			}
		}
	}
	r, err := graph.NewBipartite(d.vertices(), n, list)
	require.NoError(t, err)
	s := Source{
		Relation: &r, Starts: d.starts, Me: p,
		IDs: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, n),
	}
	for i := range n {
		s.IDs.Int32s()[i] = idOf(int32(d.starts[p] + i))
	}
	for q := range k {
		s.Holders = append(s.Holders, q)
		s.HaloRows = append(s.HaloRows, make([]int, k))
		for other := range k {
			if q != other {
				s.HaloRows[q][other] = len(d.needs(q, other, everyRow))
			}
		}
	}
	return s
}

// entries returns the entries of a block's matrix, by source vertex, local row and weight, in order.
func entries(b *Block, a *kernel.CSR, own bool) (all []arrow) {
	for i := range a.Rows {
		for at := a.Indptr.Int64s()[i]; at < a.Indptr.Int64s()[i+1]; at++ {
			entry := arrow{b.IDs.Int32s()[a.Indices.Int32s()[at]], int32(i), 1}
			if own {
				entry.target = int32(entriesOf(b.Targets)(i))
			}
			if a.Values != nil {
				entry.weight = a.Values.Floats()[at]
			}
			all = append(all, entry)
		}
	}
	slices.SortFunc(all, compare)
	return all
}

func compare(a, b arrow) int {
	return slices.Compare([]float32{float32(a.target), float32(a.source), a.weight},
		[]float32{float32(b.target), float32(b.source), b.weight})
}

// TestBlocksHoldAllEdges: the block of its source's partition holds each edge once; self loops are held
// apart. Rows that others need are sent in messages of a sixth of a partition, or of 512 rows if that is
// more, in the order of the halo exchange. Blocks with edges into less than a fourth of the rows list these
// rows.
func TestBlocksHoldAllEdges(t *testing.T) {
	d := tangled()
	for _, weighted := range []bool{false, true} {
		d.workers(t, func(c *comm.Comm, team *kernel.Team, me int) error {
			e, err := New(team, c, d.source(t, team, me, weighted))
			if err != nil {
				return err
			}
			loops, byPeer := make([]int, e.Rows), make([][]arrow, 3)
			for _, a := range d.arrows {
				if !weighted {
					a.weight = 1
				}
				if d.holder(a.target) != me {
					continue
				}
				row := a.target - int32(d.starts[me])
				if a.source == a.target {
					loops[row]++
				} else {
					q := d.holder(a.source)
					byPeer[q] = append(byPeer[q], arrow{idOf(a.source), row, a.weight})
				}
			}
			n := 0
			for q := range byPeer {
				slices.SortFunc(byPeer[q], compare)
				n += len(byPeer[q])
			}
			for v, want := range loops {
				if got := e.loopCounts()(v); got != want {
					t.Errorf("row %d of %d has %d loops, want %d", v, me, got, want)
				}
			}
			if e.Entries() != int64(n) || !slices.Equal(entries(e.Local(), e.Local().In, true), byPeer[me]) {
				t.Errorf("%d: %d edges, want %d, or other ones among local rows", me, e.Entries(), n)
			}
			blocks, mostIn := e.Remote(), 0
			for round := 1; round < 3; round++ {
				q := (me - round + 3) % 3
				needed, step := d.needs(me, q, everyRow), max(512, (d.starts[q+1]-d.starts[q]+5)/6)
				var got []arrow
				for len(needed) > 0 {
					b, rows := blocks[0], needed[:min(step, len(needed))]
					blocks, needed = blocks[1:], needed[len(rows):]
					mostIn = max(mostIn, len(rows))
					for i, row := range rows {
						if b.Peer != q || b.IDs.Cols != len(rows) ||
							b.IDs.Int32s()[i] != idOf(int32(d.starts[q])+row) {
							t.Fatalf("%d: a block of worker %d has vertices %v, want those of rows %v of %d",
								me, b.Peer, b.IDs.Int32s(), rows, q)
						}
					}
					its := entries(b, b.In, true)
					got = append(got, its...)
					targets := 1
					for i := 1; i < len(its); i++ {
						if its[i].target != its[i-1].target {
							targets++
						}
					}
					if few := 4*targets < e.Rows; few != (b.Targets != nil) ||
						few && (b.In.Rows != targets || !slices.IsSorted(b.Targets.Int32s())) {
						t.Errorf("%d: a block into %d of %d rows lists %v", me, targets, e.Rows, b.Targets)
					}
					transposed := team.Transpose(b.In, tensor.Buffers)
					if !slices.Equal(b.Out.Indptr.Int64s(), transposed.Indptr.Int64s()) ||
						!slices.Equal(b.Out.Indices.Int32s(), transposed.Indices.Int32s()) {
						t.Errorf("%d: Out is not the transpose", me)
					}
				}
				slices.SortFunc(got, compare)
				if !slices.Equal(got, byPeer[q]) {
					t.Errorf("%d: other edges from %d", me, q)
				}
			}
			if len(blocks) > 0 || e.MostIn != mostIn {
				t.Errorf("%d: %d blocks too many, or at most %d rows in a message, want %d", me,
					len(blocks), e.MostIn, mostIn)
			}
			messages, mostOut := e.Needed, 0
			for round := 1; round < 3; round++ {
				q := (me + round) % 3
				needed, step := d.needs(q, me, everyRow), max(512, (e.Rows+5)/6)
				for len(needed) > 0 {
					rows := needed[:min(step, len(needed))]
					if p := messages[0]; p.Peer != q || !slices.Equal(p.Rows.Int32s(), rows) {
						t.Errorf("%d: rows %v go to %d, want %v to %d", me, p.Rows.Int32s(), p.Peer, rows, q)
					}
					messages, needed, mostOut = messages[1:], needed[len(rows):], max(mostOut, len(rows))
				}
			}
			if len(messages) > 0 || e.MostOut != mostOut || e.Alone() {
				t.Errorf("%d: %d messages too many, or at most %d rows in one, want %d", me, len(messages),
					e.MostOut, mostOut)
			}
			return nil
		})
	}
}

// aggregation returns a linear aggregation of positions by its definition.
func (d *divided) aggregation(r gnn.Reduce, weighted bool) *reference.Aggregation {
	into := make([][]arrow, d.vertices())
	for _, a := range d.arrows {
		into[a.target] = append(into[a.target], a)
	}
	indptr, sources, weights := []int64{0}, []int32(nil), []float64(nil)
	for _, list := range into {
		for _, a := range list {
			sources = append(sources, a.source)
			if weighted {
				weights = append(weights, float64(a.weight))
			}
		}
		indptr = append(indptr, int64(len(sources)))
	}
	kind := map[gnn.ReduceKind]reference.Kind{
		gnn.KindSum: reference.Sum, gnn.KindMean: reference.Mean, gnn.KindSymmetric: reference.Symmetric,
		gnn.KindSymmetricNoLoops: reference.SymmetricNoLoops,
	}[r.Kind]
	return reference.Linear(kind, float64(r.Self), indptr, sources, weights)
}

// workers runs f as the worker of each partition.
func (d *divided) workers(t *testing.T, f func(c *comm.Comm, team *kernel.Team, me int) error) {
	t.Helper()
	require.NoError(t, launch.Workers(len(d.starts)-1, time.Minute, func(c *comm.Comm) error {
		mem := tensor.NewMeter()
		defer mem.Close()
		return f(c, kernel.NewTeam(1, mem), c.Rank())
	}))
}

// apply returns the aggregation of a column over all blocks of a worker; x is the number of a source.
func apply(team *kernel.Team, e *Edges, r gnn.Reduce,
	x func(b *Block, i int) float32,
) (*tensor.Matrix, error) {
	o, err := e.Operator(r)
	if err != nil {
		return nil, err
	}
	z := team.Memory.New(tensor.Buffers, e.Rows, 1)
	for i, b := range e.Blocks {
		to := kernel.Accumulate
		if i == 0 {
			to = kernel.Replace
		}
		o.Apply(z, b, column(team, b.In.Cols, func(i int) float32 { return x(b, i) }), to)
	}
	return z, nil
}

func column(team *kernel.Team, rows int, value func(i int) float32) *tensor.Matrix {
	m := team.Memory.New(tensor.Buffers, rows, 1)
	for i := range rows {
		m.Floats()[i] = value(i)
	}
	return m
}

// TestOperatorsByDefinition compares each linear aggregation and its transpose with a matrix in double
// precision.
func TestOperatorsByDefinition(t *testing.T) {
	d := tangled()
	x, g := make([]float32, d.vertices()), make([]float32, d.vertices())
	r := rand.New(rand.NewPCG(6, 6))
	for v := range x {
		x[v], g[v] = r.Float32()-.5, r.Float32()-.5
	}
	for _, weighted := range []bool{false, true} {
		for _, reduce := range []gnn.Reduce{
			gnn.Sum,
			{Kind: gnn.KindSum, Self: 2},
			gnn.Mean,
			{Kind: gnn.KindMean, Self: 1},
			gnn.Symmetric, gnn.SymmetricNoLoops,
		} {
			aggregation, n := d.aggregation(reduce, weighted), len(x)
			forward, backward := reference.New(n, 1), reference.New(n, 1)
			reference.SpMM(forward, aggregation, reference.From32(n, 1, x))
			reference.SpMMTranspose(backward, aggregation, reference.From32(n, 1, g))
			sums := make(chan []float32, 3) // each worker's share of the backward pass
			d.workers(t, func(c *comm.Comm, team *kernel.Team, me int) error {
				e, err := New(team, c, d.source(t, team, me, weighted))
				if err != nil {
					return err
				}
				position := func(b *Block, i int) int32 { return (b.IDs.Int32s()[i] - 1) / 3 }
				z, err := apply(team, e, reduce, func(b *Block, i int) float32 { return x[position(b, i)] })
				if err != nil {
					return err
				}
				o, err := e.Operator(reduce)
				if err != nil {
					return err
				}
				dz, share := column(team, e.Rows, func(i int) float32 { return g[d.starts[me]+i] }),
					make([]float32, n)
				for _, b := range e.Blocks {
					dx := team.Memory.New(tensor.Buffers, b.In.Cols, 1)
					pick := b.Picker(o.team)
					o.ApplyTransposed(dx, b, pick.Rows(dz), kernel.Replace)
					pick.Release()
					for i, v := range dx.Floats() {
						share[position(b, i)] += v
					}
				}
				for i, got := range z.Floats() {
					want := forward.Data[d.starts[me]+i]
					if math.Abs(float64(got)-want) > 1e-5*math.Max(1, math.Abs(want)) {
						t.Errorf("%+v, weights %v: row %d of worker %d is %v, want %v", reduce,
							weighted, i, me, got, want)
					}
				}
				sums <- share
				return nil
			})
			a, b, c := <-sums, <-sums, <-sums
			for v, want := range backward.Data {
				got := float64(a[v]) + float64(b[v]) + float64(c[v])
				if math.Abs(got-want) > 1e-4*math.Max(1, math.Abs(want)) {
					t.Errorf("%+v, weights %v: the gradient of %d is %v, want %v", reduce,
						weighted, v, got, want)
				}
			}
		}
	}
}

// TestSomeRows: an aggregation for selected rows has the same bits as among all rows.
func TestSomeRows(t *testing.T) {
	d := tangled()
	for name, takes := range map[string]func(position int32) bool{
		"a third":     func(position int32) bool { return position%3 == 0 },
		"a hundredth": func(position int32) bool { return position%100 == 9 },
	} {
		needed := make([]bool, d.vertices())
		for _, a := range d.arrows {
			if takes(a.target) {
				needed[a.source], needed[a.target] = true, true
			}
		}
		for _, reduce := range []gnn.Reduce{{Kind: gnn.KindMean, Self: 1}, gnn.Symmetric} {
			d.workers(t, func(c *comm.Comm, team *kernel.Team, me int) error {
				var results [2][]float32
				s := d.source(t, team, me, true)
				for k := range results {
					rows := make([]int32, 0, s.Starts[me+1]-s.Starts[me])
					var into []int32
					for position := s.Starts[me]; position < s.Starts[me+1]; position++ {
						row := int32(position - s.Starts[me])
						if k == 0 || needed[position] {
							rows = append(rows, row)
						}
						if takes(int32(position)) && needed[position] {
							into = append(into, row)
						}
					}
					if k == 1 {
						s.Some = &Some{Rows: rows, Into: into, Sources: rows}
						s.IDs = team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(rows))
						for i, row := range rows {
							s.IDs.Int32s()[i] = idOf(int32(s.Starts[me]) + row)
						}
					}
					e, err := New(team, c, s)
					if err != nil {
						return err
					}
					z, err := apply(team, e, reduce, func(b *Block, i int) float32 {
						return float32(math.Sin(float64(b.IDs.Int32s()[i])))
					})
					if err != nil {
						return err
					}
					for i, row := range rows {
						if slices.Contains(into, row) {
							results[k] = append(results[k], z.Floats()[i])
						}
					}
				}
				if !slices.Equal(results[0], results[1]) || len(results[0]) == 0 {
					t.Errorf("%s, %+v, worker %d: %d rows have other bits than among all", name, reduce,
						me, len(results[0]))
				}
				return nil
			})
		}
	}
}
