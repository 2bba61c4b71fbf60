package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/chunked"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/engine"
)

// TestChunks compares the Propagators of chunks with the definition of each layer that aggregates once:
// outputs from this epoch's rows and from the history, the gradients of all rows read, and the gradients of
// parameters. It does so in both directions, with other rows in each epoch. Vertices are divided among the
// replicas in turn, and among chunks at random. Each treatment of the chunks has one replica, three, and two
// of two slices; one of the first two has the graph with edge weights.
func TestChunks(t *testing.T) {
	for i, chunking := range []struct {
		chunks int
		axis.Options
	}{
		{1, axis.Options{HistoryPeriod: 2}},
		{2, axis.Options{HistoryPeriod: 1}},
		{5, axis.Options{HistoryPeriod: 2}},
		{3, axis.Options{HistoryPeriod: 2, StaleGradients: axis.Drop}},
		{3, axis.Options{HistoryPeriod: 2, StaleGradients: axis.Keep}},
	} {
		for k, m := range []mesh.Mesh{Grid(1, 1, 1), Grid(1, 3, 1), Grid(1, 2, 2)} {
			t.Run(fmt.Sprintf("%s, %+v", Name(m), chunking), func(t *testing.T) {
				t.Parallel()
				c := newChunks(Small(t, true, (i+k)%2 == 0), m, chunking.chunks, chunking.Options)
				c.which = func(l Layer) bool { // every second layer, the others on the next mesh
					number := slices.IndexFunc(Layers, func(other Layer) bool { return other.Name == l.Name })
					return l.aggregatesOnce() && (number+i+k)%2 == 0
				}
				c.rows = func(epoch int) float64 { return 1.25 - float64(epoch)/4 }
				c.run(t)
				c.layers(func(l Layer, along gnn.Along) { c.check(t, l, along) })
			})
		}
	}
}

// TestChunkRounds compares layers of several rounds with their definition. Each round has a history of its
// own. The rows stay the same, and each epoch takes a snapshot, so that in the end all rows read are exact.
func TestChunkRounds(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		c := newChunks(Small(t, true, true), Grid(1, replicas, 1), 3, axis.Options{HistoryPeriod: 1})
		c.which = func(l Layer) bool { return l.rounds && l.method == "Propagate" }
		c.rows = func(int) float64 { return 1 }
		c.run(t)
		c.layers(func(l Layer, along gnn.Along) {
			site := fmt.Sprint(l.Name, along)
			near(t, site, c.got[chunkEpochs-1][site].Out,
				l.right(t, tensor.Float32, c.graph, along).Out, 1e-5)
		})
	}
}

func newChunks(g *graph.Graph, m mesh.Mesh, count int, o axis.Options) *chunks {
	c := &chunks{graph: g, mesh: m, options: o, owners: Dividings(g.Vertices(), m.Partitions)["in turn"]}
	r := rand.New(rand.NewPCG(6, uint64(count)))
	for range g.Vertices() {
		c.chunk = append(c.chunk, r.Int32N(int32(count)))
	}
	c.division = chunked.Division{Chunks: inPartitions(c.owners, m.Partitions, c.chunk), Count: count}
	for e := range c.got {
		c.got[e] = map[string]*Outcome{}
	}
	return c
}

// inPartitions puts a number for each vertex into the order of the partitions.
func inPartitions(owners []int32, partitions int, numbers []int32) (list []int32) {
	for p := range int32(partitions) {
		for v, x := range numbers {
			if owners[v] == p {
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
	graph         *graph.Graph
	mesh          mesh.Mesh
	owners, chunk []int32 // each vertex's partition, and chunk of it
	options       axis.Options
	division      chunked.Division
	which         func(Layer) bool        // the layers
	rows          func(epoch int) float64 // factor of a layer's rows in an epoch
	mu            sync.Mutex
	got           [chunkEpochs]map[string]*Outcome // by layer
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
	w := Workers{Mesh: c.mesh, Graph: c.graph, Owners: c.owners}
	w.Run(t, func(config engine.Config) {
		g, err := chunked.New(config.Env, c.options, c.division)
		exchange.Must(err)
		for epoch := 1; epoch <= chunkEpochs; epoch++ {
			turns := c.order(epoch)
			pass := g.Forward(epoch, turns)
			var layers []*chunkedLayer
			c.layers(func(l Layer, along gnn.Along) {
				layers = append(layers, c.layer(config, g, l, along, epoch))
			})
			for _, k := range turns {
				for _, l := range layers {
					l.forward(g.Chunks[k], k)
				}
			}
			pass.Backward()
			slices.Reverse(turns)
			for _, k := range turns {
				for _, l := range slices.Backward(layers) {
					l.backward(g.Chunks[k], k)
				}
			}
			for _, l := range layers {
				l.finish()
			}
			pass.End()
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

func (c *chunks) layer(config engine.Config, g *chunked.Graph, l Layer, along gnn.Along,
	epoch int,
) *chunkedLayer {
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
		Layer: l, config: config, epoch: epoch, rows: c.rows(epoch), p: g.Propagator(site, along),
		outcome: o, mu: &c.mu,
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
		summed(l.config, m[1], &l.outcome.DW[i])
	}
}

// check compares a layer in all epochs with its definition.
func (c *chunks) check(t *testing.T, l Layer, along gnn.Along) {
	site, n, e := fmt.Sprint(l.Name, along), c.graph.Vertices(), inEdgesOf(&c.graph.Relations[0], along)
	w, names := tensors{}, []string(nil)
	for i, m := range l.drawnWeights() {
		names = append(names, fmt.Sprint(i))
		w[names[i]] = m
	}
	x, dz := l.Given(n)
	p := &gnnPipe{
		chunk: c.chunk, chunks: c.division.Count, period: c.options.HistoryPeriod, scale: 1,
		keep:     c.options.StaleGradients == axis.Keep,
		gradient: matrix(n, l.Out, dz),
		model: func(t *chunkTurn, x *chunkRows) *chunkRows {
			return t.exactly(site, e, l.exact, l.Out, x, names...)
		},
	}
	if c.options.StaleGradients == axis.DropScale {
		p.scale = 2
	}
	for epoch := 1; epoch <= chunkEpochs; epoch++ {
		p.features = matrix(n, l.In, x).Map(func(v float64) float64 { return v * c.rows(epoch) })
		f, grads := p.epoch(epoch, w, c.order(epoch))
		want := &Outcome{Out: f.logits.Data, DX: f.dx.Data}
		for _, name := range names {
			want.DW = append(want.DW, grads[name].Data)
		}
		c.got[epoch-1][site].Near(t, fmt.Sprintf("%s, epoch %d", site, epoch), want)
	}
}
