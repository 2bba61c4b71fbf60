package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel/reference"
	"weft/parallel/axis"
	"weft/parallel/chunked"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/engine"
)

// Chunks compares the Propagators of chunks with the definition of each layer that aggregates once: outputs
// from this epoch's rows and from the history, the gradients of all rows read, and the gradients of
// parameters. It does so in both directions, with other rows in each epoch. Vertices are divided among the
// replicas in turn, and among chunks at random.
func Chunks(t *testing.T, g *graph.Graph, replicas, count int, o axis.Options) {
	c := newChunks(g, replicas, count, o)
	c.which, c.rows = Layer.aggregatesOnce, func(epoch int) float64 { return 1.25 - float64(epoch)/4 }
	c.run(t)
	c.layers(func(l Layer, along gnn.Along) { c.check(t, l, along) })
}

// ChunkRounds compares layers of several rounds with their definition. Each round has a history of its own.
// The rows stay the same, and each epoch takes a snapshot, so that in the end all rows read are exact.
func ChunkRounds(t *testing.T, replicas, count int) {
	c := newChunks(Small(t, true, true), replicas, count, axis.Options{HistoryPeriod: 1})
	c.which = func(l Layer) bool { return l.rounds && l.method == "Propagate" }
	c.rows = func(int) float64 { return 1 }
	c.run(t)
	c.layers(func(l Layer, along gnn.Along) {
		site := fmt.Sprint(l.Name, along)
		near(t, site, c.got[chunkEpochs-1][site].Out, l.right(t, tensor.Float32, c.graph, along).Out, 1e-5)
	})
}

func newChunks(g *graph.Graph, replicas, count int, o axis.Options) *chunks {
	c := &chunks{graph: g, replicas: replicas, options: o, of: Dividings(g.Vertices(), replicas)["in turn"]}
	r := rand.New(rand.NewPCG(6, uint64(count)))
	for range g.Vertices() {
		c.chunk = append(c.chunk, r.Int32N(int32(count)))
	}
	c.division = chunked.Division{Of: InPartitions(c.of, replicas, c.chunk), Count: count}
	for e := range c.got {
		c.got[e] = map[string]*Outcome{}
	}
	return c
}

// InPartitions puts a number for each vertex into the order of the partitions.
func InPartitions(of []int32, partitions int, numbers []int32) (list []int32) {
	for p := range int32(partitions) {
		for v, x := range numbers {
			if of[v] == p {
				list = append(list, x)
			}
		}
	}
	return list
}

// aggregatesOnce says that the layer is one aggregation without a product before it.
func (l Layer) aggregatesOnce() bool {
	return l.exact != nil && l.method != "AggregateLinear" && !l.rounds
}

// chunks are layers on a graph in chunks.
type chunks struct {
	graph     *graph.Graph
	replicas  int
	of, chunk []int32 // each vertex's partition, and chunk of it
	options   axis.Options
	division  chunked.Division
	which     func(Layer) bool        // the layers
	rows      func(epoch int) float64 // factor of a layer's rows in an epoch
	mu        sync.Mutex
	got       [chunkEpochs]map[string]*Outcome // by layer
}

const chunkEpochs = 4

// order is the order of the chunks in an epoch.
func (c *chunks) order(epoch int) []int {
	return rand.New(rand.NewPCG(7, uint64(epoch))).Perm(c.division.Count)
}

// layers calls f for the layers, in both directions.
func (c *chunks) layers(f func(Layer, gnn.Along)) {
	for _, l := range Layers {
		for _, along := range []gnn.Along{Stored, Reversed} {
			if c.which(l) && l.Is(along) {
				f(l, along)
			}
		}
	}
}

func (c *chunks) run(t *testing.T) {
	w := Workers{Mesh: mesh.Mesh{Stages: 1, Partitions: c.replicas, Slices: 1}, Graph: c.graph, Of: c.of}
	w.Run(t, func(config engine.Config) {
		g, err := chunked.New(config.Env, c.options, c.division)
		if err != nil {
			panic(err)
		}
		for epoch := 1; epoch <= chunkEpochs; epoch++ {
			turns := c.order(epoch)
			g.Forward(epoch, slices.Clone(turns))
			var layers []*chunkedLayer
			c.layers(func(l Layer, along gnn.Along) { layers = append(layers, c.layer(config, g, l, along, epoch)) })
			for _, k := range turns {
				for _, l := range layers {
					l.forward(g.Chunks[k], k)
				}
			}
			g.Backward()
			slices.Reverse(turns)
			for _, k := range turns {
				for _, l := range slices.Backward(layers) {
					l.backward(g.Chunks[k], k)
				}
			}
			for _, l := range layers {
				l.finish()
			}
			g.EndEpoch(epoch)
		}
	})
}

// chunkedLayer is a layer on one worker, in an epoch.
type chunkedLayer struct {
	Layer
	config  engine.Config
	epoch   int
	rows    float64 // factor of its rows
	p       gnn.Propagator
	tapes   []*autograd.Tape // by chunk
	in, out []*autograd.Var
	w       [][2]*tensor.Matrix // values and gradients
	outcome *Outcome
	mu      *sync.Mutex // of the outcome
}

func (c *chunks) layer(config engine.Config, g *chunked.Graph, l Layer, along gnn.Along, epoch int) *chunkedLayer {
	site := fmt.Sprint(l.Name, along)
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.got[epoch-1][site]
	if o == nil {
		o = l.Blank(c.graph.Vertices())
		c.got[epoch-1][site] = o
	}
	n := c.division.Count
	s := &chunkedLayer{
		Layer: l, config: config, epoch: epoch, rows: c.rows(epoch), p: g.Propagator(site, along), outcome: o, mu: &c.mu,
		tapes: make([]*autograd.Tape, n), in: make([]*autograd.Var, n), out: make([]*autograd.Var, n),
	}
	for i, shape := range l.Weights {
		value := config.Team.Memory.New(tensor.Parameters, shape[0], shape[1])
		drawWeight(value, i)
		s.w = append(s.w, [2]*tensor.Matrix{value, config.Team.Zeros(tensor.Gradients, shape[0], shape[1])})
	}
	return s
}

func (l *chunkedLayer) forward(c *chunked.Chunk, k int) {
	team := l.config.Team
	x, ids := team.Memory.New(tensor.Features, c.Rows().Here, l.In), c.Vertices()
	draw(x, inputNumbers, ids)
	team.Scale(x, float32(l.rows), x)
	t := autograd.NewTrainingTape(team, autograd.Random{Seed: 3, Epoch: l.epoch})
	var w []*autograd.Var
	for _, m := range l.w {
		w = append(w, t.Parameter(m[0], m[1]))
	}
	l.tapes[k], l.in[k] = t, t.Input(x, c.Rows())
	l.out[k] = t.Scope(func() *autograd.Var { return l.Forward(l.p, l.in[k], w) })
	l.mu.Lock()
	defer l.mu.Unlock()
	place(l.outcome.Out, l.out[k].Value(), ids)
}

func (l *chunkedLayer) backward(c *chunked.Chunk, k int) {
	dz, ids := l.config.Team.Memory.New(tensor.Gradients, c.Rows().Here, l.Out), c.Vertices()
	draw(dz, gradientNumbers, ids)
	l.tapes[k].Backward(autograd.Root{Var: l.out[k], Grad: dz})
	dx := l.in[k].TakeGrad()
	defer dx.Release()
	l.mu.Lock()
	defer l.mu.Unlock()
	place(l.outcome.DX, dx, ids)
}

// finish sums the gradients of the parameters over the replicas.
func (l *chunkedLayer) finish() {
	for i, m := range l.w {
		if err := l.config.Groups.Replicas.SumFloats(comm.Gradient, m[1].Floats()); err != nil {
			panic(err)
		}
		if l.config.Groups.Replicas.Rank() == 0 {
			l.outcome.DW[i] = doubles(m[1].Floats())
		}
	}
}

// check compares a layer in all epochs with its definition, computed from the rows that each chunk reads.
func (c *chunks) check(t *testing.T, l Layer, along gnn.Along) {
	site := fmt.Sprint(l.Name, along)
	n, count := c.graph.Vertices(), c.division.Count
	e := inEdgesOf(&c.graph.Relations[0], along)
	given, gradient := l.Given(n)
	w := l.drawnWeights()
	history, returned := reference.New(n, l.In), make([][]float64, count)
	for k := range returned {
		returned[k] = make([]float64, n*l.In)
	}
	for epoch := 1; epoch <= chunkEpochs; epoch++ {
		turns, want := c.order(epoch), l.Blank(n)
		for i, shape := range l.Weights {
			want.DW[i] = make([]float64, shape[0]*shape[1])
		}
		buffer := history.Clone()
		passes := make([]*Outcome, count)
		for _, k := range turns { // forward, and the gradients of the rows that each chunk reads
			dz := reference.New(n, l.Out)
			c.each(k, func(v int) {
				for i := range l.In {
					buffer.Set(v, i, given[v*l.In+i]*c.rows(epoch))
				}
				copy(dz.Data[v*l.Out:(v+1)*l.Out], gradient[v*l.Out:])
			})
			passes[k] = l.exact(e, buffer.Clone(), dz, w)
			c.each(k, func(v int) { copy(want.Out[v*l.Out:(v+1)*l.Out], passes[k].Out[v*l.Out:]) })
		}
		slices.Reverse(turns)
		for _, k := range turns {
			returned[k] = passes[k].DX
			for other, d := range returned {
				scale := 1.
				if other != k && c.options.StaleGradients == axis.DropScale {
					scale = 2
				}
				c.each(k, func(v int) {
					for i := v * l.In; i < (v+1)*l.In; i++ {
						want.DX[i] += scale * d[i]
					}
				})
			}
			for i, dw := range passes[k].DW {
				for j, x := range dw {
					want.DW[i][j] += x
				}
			}
		}
		if c.options.StaleGradients != axis.Keep {
			for k := range returned {
				returned[k] = make([]float64, n*l.In)
			}
		}
		if epoch%c.options.HistoryPeriod == 0 {
			history = buffer
		}
		c.got[epoch-1][site].Near(t, fmt.Sprintf("%s, epoch %d", site, epoch), want)
	}
}

// each calls f for the vertices of a chunk number, on every replica.
func (c *chunks) each(k int, f func(v int)) {
	for v, chunk := range c.chunk {
		if int(chunk) == k {
			f(v)
		}
	}
}
