package links_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
)

const (
	vertices = 90
	columns  = 5
	drawn    = 3

	// windowBytes are few: some edges a batch, and a few vertices a tile
	windowBytes = 1 << 12
)

var draw = links.Draw{Seed: 9, Shares: [3]float64{50, 10, 40}}

// among returns the ends of a relation within one type of so many vertices, the only one.
func among(vertices int) links.Ends {
	all := links.Range{High: int32(vertices)}
	return links.Ends{Sources: all, Targets: all}
}

// tangled has two relations and a reverse of the first, self loops, parallel edges and
// isolated vertices; it is not symmetric.
func tangled(t *testing.T) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	g := &graph.Graph{Types: []graph.VertexType{{Type: "v", Frame: graph.Frame{Count: vertices}}}}
	for _, name := range []string{"a", "b"} {
		var e graph.Edges
		for range 400 {
			u, v := int32(r.IntN(vertices-9)), int32(r.IntN(vertices-9))
			for range 1 + r.IntN(8)/7 {
				e.Source, e.Target = append(e.Source, u), append(e.Target, v)
			}
			if r.IntN(4) == 0 {
				e.Source, e.Target = append(e.Source, v), append(e.Target, u)
			}
		}
		relation, err := graph.NewRelation(vertices, e)
		require.NoError(t, err)
		relation.Source, relation.Name, relation.Target = "v", name, "v"
		g.Relations = append(g.Relations, relation)
	}
	back := *g.Relations[0].Reversed(vertices)
	back.Source, back.Name, back.Target = "v", "rev_a", "v"
	g.Relations = append(g.Relations, back)
	require.NoError(t, g.Check())
	return g
}

// edgesOf are the edges of a part by definition: of relations that are not a reverse, without self loops,
// each once.
func edgesOf(g *graph.Graph, part links.Part) (edges []links.Edge) {
	for k, r := range g.Relations[:2] {
		all := r.Edges()
		for i, u := range all.Source {
			e := links.Edge{Relation: int32(k), Source: u, Target: all.Target[i]}
			if u != e.Target && draw.Part(e) == part && !slices.Contains(edges, e) {
				edges = append(edges, e)
			}
		}
	}
	return edges
}

// TestPassesIsLinear: of four times as many relations, the rule takes about four times as many allocations.
func TestPassesIsLinear(t *testing.T) {
	allocations := func(relations int) float64 {
		s, name := &partition.Share{}, strings.Repeat("a", 100) // what compares all pairs by name joins such
		s.Whole.Types = make([]partition.WholeType, 1)
		for i := range relations {
			var r partition.Relation
			r.In.Name = fmt.Sprint(name, i)
			if i%2 == 1 {
				r.In.Name = fmt.Sprint(graph.ReversePrefix, name, i-1)
			}
			s.Edges.Relations = append(s.Edges.Relations, r)
		}
		use := func(partition.Rule) error { return nil }
		return testing.AllocsPerRun(3, func() { _ = draw.Passes(s, use) })
	}
	if few, many := allocations(100), allocations(400); many > 6*few {
		t.Errorf("%v allocations of 100 relations, %v of 400", few, many)
	}
}

func embeddings() (h, w []float32) {
	r := rand.New(rand.NewPCG(5, 5))
	for range vertices * columns {
		h = append(h, r.Float32()*2-1)
	}
	for range 2 * columns {
		w = append(w, r.Float32()*2-1)
	}
	return h, w
}

// score is that of an edge, in double precision.
func score(h, w []float32, e links.Edge) (s float64) {
	for c := range columns {
		s += float64(h[int(e.Source)*columns+c]) * float64(w[int(e.Relation)*columns+c]) * float64(
			h[int(e.Target)*columns+c])
	}
	return s
}

// division is how workers divide a graph: into partitions, each of which has so many workers.
type division struct{ partitions, each int }

var divisions = []division{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 3}, {3, 2}}

func (d division) String() string {
	return fmt.Sprintf("%d partitions of %d workers", d.partitions, d.each)
}

// on runs work as the workers of partitions, the second of which is empty. ids are a worker's vertices.
func on(t *testing.T, g *graph.Graph, d division, rankAmong int,
	work func(c *comm.Comm, l *links.Edges, team *kernel.Team, ids []int32) error,
) {
	t.Helper()
	k := d.partitions
	a := &partition.Assignment{K: k, Parts: make([]int32, vertices)}
	for v := range a.Parts {
		if a.Parts[v] = int32(v * 7 % k); a.Parts[v] == 1 {
			a.Parts[v] = int32(k - 1)
		}
	}
	shares := []*partition.Share{partition.All(g)}
	if k > 1 {
		var err error
		if shares, err = partition.Split(g, a); err != nil {
			t.Fatal(err)
		}
	}
	err := launch.Workers(k*d.each, time.Minute, func(c *comm.Comm) error {
		s := shares[c.Rank()/d.each]
		memory := tensor.NewMeter()
		defer memory.Close()
		team := kernel.NewTeam(2, memory)
		var ids []int32
		for row := range s.Edges.Types[0].Rows {
			if row*row%d.each == c.Rank()%d.each { // some workers have few or none
				ids = append(ids, s.Types[0].ID(row))
			}
		}
		l, err := links.New(team, c, s, ids, links.Options{Draw: draw, RankAmong: rankAmong})
		if err != nil {
			return err
		}
		l.Cut(windowBytes)
		return work(c, l, team, ids)
	})
	require.NoError(t, err)
}

// rowsOf are those of some vertices, as a worker has them.
func rowsOf(team *kernel.Team, h []float32, ids []int32) *tensor.Matrix {
	m := team.Memory.New(tensor.Activations, len(ids), columns)
	for i, v := range ids {
		copy(m.Floats()[i*columns:], h[int(v)*columns:][:columns])
	}
	return m
}

// decoder is DistMult with these weights, or without weights the product.
func decoder(team *kernel.Team, w []float32) (d links.Decoder) {
	if w != nil {
		d.Weights, d.Grad = team.Memory.New(tensor.Parameters, 2, columns),
			team.Zeros(tensor.Gradients, 2, columns)
		copy(d.Weights.Floats(), w)
	}
	return d
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-5*math.Max(1e-3, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestLoss holds loss and gradients, on one worker and several, against loops in double precision over the
// edges that train and those that Negative draws: every worker draws the same, as the gradient of each row
// is that of all.
func TestLoss(t *testing.T) {
	const epoch = 4
	g := tangled(t)
	h, w := embeddings()
	for _, weights := range [][]float32{nil, w} {
		loss, dh, dw := 0.0, make([]float64, len(h)), make([]float64, len(w))
		edges := edgesOf(g, links.Train)
		used := weights
		if used == nil {
			used = slices.Repeat([]float32{1}, len(w))
		}
		add := func(e links.Edge, y float64) {
			s, n := score(h, used, e), float64(len(edges)*(1+drawn))
			p := 1 / (1 + math.Exp(-s))
			loss -= (y*math.Log(p) + (1-y)*math.Log(1-p)) / n
			for c := range columns {
				u, v, r := int(e.Source)*columns+c, int(e.Target)*columns+c, int(e.Relation)*columns+c
				dh[u] += (p - y) / n * float64(used[r]) * float64(h[v])
				dh[v] += (p - y) / n * float64(used[r]) * float64(h[u])
				dw[r] += (p - y) / n * float64(h[u]) * float64(h[v])
			}
		}
		for _, e := range edges {
			add(e, 1)
			for k := range drawn {
				add(draw.Negative(epoch, k, e, among(vertices)), 0)
			}
		}
		for _, k := range divisions {
			t.Run(fmt.Sprintf("%v, weights %v", k, weights != nil), func(t *testing.T) {
				var mu sync.Mutex
				sum := 0.0
				on(t, g, k, 0, func(_ *comm.Comm, l *links.Edges, team *kernel.Team, ids []int32) error {
					d := decoder(team, weights)
					part, grad := l.Loss(rowsOf(team, h, ids), d, epoch, drawn)
					mu.Lock()
					defer mu.Unlock()
					sum += part
					if l.Counts[links.Train] != len(edges) {
						t.Errorf("%d edges train, want %d", l.Counts[links.Train], len(edges))
					}
					for i, v := range ids {
						for c := range columns {
							near(t, fmt.Sprintf("gradient of vertex %d, column %d", v, c),
								float64(grad.Floats()[i*columns+c]), dh[int(v)*columns+c])
						}
					}
					if d.Grad != nil {
						for i, x := range d.Grad.Floats() {
							near(t, fmt.Sprintf("gradient of weight %d", i), float64(x), dw[i])
						}
					}
					return nil
				})
				near(t, "loss", sum, loss)
			})
		}
	}
}

// TestScores: of held-out edges and of the one that is drawn against each, the same every time, in double
// precision. Their loss is the mean binary cross-entropy; workers have shares of it. Without edges it is 0.
func TestScores(t *testing.T) {
	g := tangled(t)
	h, w := embeddings()
	for _, part := range []links.Part{links.Val, links.Test} {
		var want []float64
		loss := 0.
		for _, e := range edgesOf(g, part) {
			p, q := score(h, w, e), score(h, w, draw.Negative(0, 0, e, among(vertices)))
			want = append(want, p, q)
			loss += math.Log(1+math.Exp(-p)) + math.Log(1+math.Exp(q))
		}
		slices.Sort(want)
		for _, k := range divisions {
			var mu sync.Mutex
			var got []float64
			sum := 0.
			on(t, g, k, 0, func(_ *comm.Comm, l *links.Edges, team *kernel.Team, ids []int32) error {
				scores := l.Scores(rowsOf(team, h, ids), decoder(team, w), part)
				mu.Lock()
				defer mu.Unlock()
				sum += l.LossOf(scores, part)
				for _, s := range scores {
					got = append(got, float64(s))
				}
				return nil
			})
			slices.Sort(got)
			if len(got) != len(want) {
				t.Fatalf("%v: %d scores, want %d", k, len(got), len(want))
			}
			for i := range want {
				near(t, fmt.Sprintf("%v: score %d", k, i), got[i], want[i])
			}
			near(t, fmt.Sprintf("%v: the loss", k), sum, loss/float64(len(want)))
		}
	}
	if loss := new(links.Edges).LossOf(nil, links.Val); loss != 0 {
		t.Errorf("the loss of no edges is %v", loss)
	}
}

// TestRanks holds filtered ranks against brute force, among all vertices and among some. Vertices of equal
// rows tie, and count half. In one case the embeddings are so short that their products are exact, in any
// order, with many ties. In the other, where two scores are as near as roundings the rank may be either.
func TestRanks(t *testing.T) {
	g := tangled(t)
	h, w := embeddings()
	for v := range 9 { // isolated vertices are alike, and like a linked one
		copy(h[(vertices-1-v)*columns:][:columns], h[v*3*columns:][:columns])
	}
	holdRanks(t, g, h, w, 1e-6, 0, 20)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range h {
		h[i] = float32(r.IntN(5)-2) / 2
	}
	for i := range w {
		w[i] = float32(r.IntN(3) - 1)
	}
	holdRanks(t, g, h, w, 0, 0, 20, 85)
}

// holdRanks holds the ranks of the test edges, among so many candidates each time (0: all vertices), to the
// definition, on any number of workers. Scores that are as near as roundings may tie or not, but for those of
// equal rows.
func holdRanks(t *testing.T, g *graph.Graph, h, w []float32, roundings float64, amounts ...int) {
	t.Helper()
	known := map[links.Edge]bool{}
	for _, part := range []links.Part{links.Train, links.Val, links.Test} {
		for _, e := range edgesOf(g, part) {
			known[e] = true
		}
	}
	same := func(u, v int32) bool {
		return slices.Equal(h[int(u)*columns:][:columns], h[int(v)*columns:][:columns])
	}
	edges := edgesOf(g, links.Test)
	for _, rankAmong := range amounts {
		among := draw.Candidates(rankAmong, vertices)
		if among == nil {
			for v := range int32(vertices) {
				among = append(among, v)
			}
		} else if len(among) != rankAmong {
			t.Fatalf("%d candidates, asked for %d", len(among), rankAmong)
		}
		lowest, highest := map[links.Edge]float64{}, map[links.Edge]float64{}
		for _, e := range edges {
			low, high := 1., 1.
			for _, v := range among {
				other := links.Edge{Relation: e.Relation, Source: e.Source, Target: v}
				switch d := score(h, w, other) - score(h, w, e); {
				case known[other]:
				case same(v, e.Target) || roundings == 0 && d == 0:
					low, high = low+.5, high+.5
				case d > roundings:
					low, high = low+1, high+1
				case d > -roundings:
					high++
				}
			}
			lowest[e], highest[e] = low, high
		}
		for _, k := range divisions {
			var mu sync.Mutex
			got, ids := map[int][]float64{}, map[int][]int32{}
			on(t, g, k, rankAmong, func(c *comm.Comm, l *links.Edges, team *kernel.Team, own []int32) error {
				ranks := l.Ranks(rowsOf(team, h, own), decoder(team, w), links.Test)
				mu.Lock()
				defer mu.Unlock()
				got[c.Rank()], ids[c.Rank()] = ranks, own
				return nil
			})
			for worker, ranks := range got {
				its := slices.DeleteFunc(slices.Clone(edges),
					func(e links.Edge) bool { return !slices.Contains(ids[worker], e.Target) })
				if k.partitions*k.each == 1 && len(its) < 300 {
					t.Fatalf("%d edges, which are ranked at once", len(its))
				}
				// A worker's edges come by relation, source and own row of the target
				slices.SortFunc(its, func(a, b links.Edge) int {
					row := func(e links.Edge) int32 { return int32(slices.Index(ids[worker], e.Target)) }
					return slices.Compare([]int32{a.Relation, a.Source, row(a)},
						[]int32{b.Relation, b.Source, row(b)})
				})
				if len(ranks) != len(its) {
					t.Fatalf("%v: %d ranks, want %d", k, len(ranks), len(its))
				}
				for i, e := range its {
					if ranks[i] < lowest[e] || ranks[i] > highest[e] {
						t.Errorf("%v, among %d: the rank of %v is %v, want %v to %v", k, len(among), e,
							ranks[i], lowest[e], highest[e])
					}
				}
			}
		}
	}
}

// TestNothingLeaks: an edge that passes messages trains, whether stored, turned around, or of the reverse
// relation; all others that train pass some, and self loops do.
func TestNothingLeaks(t *testing.T) {
	g := tangled(t)
	var passes partition.Rule
	require.NoError(t, draw.Passes(partition.All(g), func(rule partition.Rule) error {
		passes = rule
		return nil
	}))
	held := map[links.Edge]bool{}
	for _, part := range []links.Part{links.Val, links.Test} {
		for _, e := range edgesOf(g, part) {
			held[e], held[links.Edge{Relation: e.Relation, Source: e.Target, Target: e.Source}] = true, true
		}
	}
	for i, r := range g.Relations {
		learned := int32(i)
		if i == 2 {
			learned = 0
		}
		all := r.Edges()
		for k, u := range all.Source {
			v := all.Target[k]
			if got, want := passes(i)(u, v, 0), !held[links.Edge{
				Relation: learned, Source: u,
				Target: v,
			}]; got != want && u != v {
				t.Fatalf("relation %d, edge %d→%d passes messages: %v, want %v", i, u, v, got, want)
			} else if u == v && !got {
				t.Fatalf("relation %d, the loop of %d passes none", i, u)
			}
		}
	}
}

// TestBetweenTypes: of a relation between two types, an edge that passes messages trains, in the reverse
// relation too. Negative edges have another target of its type, each as likely.
func TestBetweenTypes(t *testing.T) {
	const sources, targets = 30, 12
	r := rand.New(rand.NewPCG(6, 1))
	var e graph.Edges
	for range 300 {
		e.Source, e.Target = append(e.Source, r.Int32N(sources)), append(e.Target, r.Int32N(targets))
	}
	to, err := graph.NewBipartite(sources, targets, e)
	require.NoError(t, err)
	to.Source, to.Name, to.Target = "s", "x", "t"
	g := &graph.Graph{
		Types: []graph.VertexType{
			{Type: "t", Frame: graph.Frame{Count: targets}}, {Type: "s", Frame: graph.Frame{Count: sources}},
		},
		Relations: []graph.Relation{to},
	}
	if g, err = g.ReverseRelations(); err != nil {
		t.Fatal(err)
	}
	restricted := draw
	restricted.Relations = [][3]string{{"s", "x", "t"}}
	share := partition.All(g)
	var passes partition.Rule
	require.NoError(t, restricted.Passes(share, func(rule partition.Rule) error {
		passes = rule
		return nil
	}))
	held := 0
	for i, turned := range []bool{false, true} {
		all := g.Relations[i].Edges()
		for k, u := range all.Source {
			v := all.Target[k]
			got := passes(i)(u, v, 0)
			if turned {
				u, v = v, u
			}
			want := restricted.Part(links.Edge{Source: targets + u, Target: v}) == links.Train
			if got != want {
				t.Fatalf("relation %d, edge %d→%d passes messages: %v, want %v", i, u, v, got, want)
			}
			if !want {
				held++
			}
		}
	}
	if held < 100 {
		t.Errorf("%d edges are held out", held)
	}
	learned, err := restricted.Supervised(share)
	require.NoError(t, err)
	ends := links.Ends{
		Sources: links.Range{Low: targets, High: targets + sources},
		Targets: links.Range{Low: 0, High: targets},
	}
	if !slices.Equal(learned.Ends, []links.Ends{ends}) {
		t.Errorf("ends %v, want %v", learned.Ends, ends)
	}
	var drawn [targets]int
	edge := links.Edge{Source: targets + 4, Target: 7}
	const n = 22000
	for k := range n {
		d := draw.Negative(1, k, edge, ends)
		if d.Source != edge.Source || d.Target == edge.Target {
			t.Fatalf("%v is drawn against %v", d, edge)
		}
		drawn[d.Target]++
	}
	for v, times := range drawn {
		if v != 7 && math.Abs(float64(times)-n/(targets-1)) > 5*math.Sqrt(n/(targets-1)) {
			t.Errorf("target %d is drawn %d times of %d", v, times, n)
		}
	}
}

// TestNegative: one end is another vertex, each as likely; sources and targets take turns; epochs differ.
func TestNegative(t *testing.T) {
	e := links.Edge{Relation: 1, Source: 3, Target: 7}
	const n, draws = 6, 60000
	var sources, targets [n]int
	again := 0
	for k := range draws {
		d := draw.Negative(1, k, e, among(n+4))
		switch {
		case d.Source != e.Source && d.Target == e.Target && d.Relation == e.Relation:
			sources[d.Source%n]++
		case d.Target != e.Target && d.Source == e.Source && d.Relation == e.Relation:
			targets[d.Target%n]++
		default:
			t.Fatalf("%v is drawn against %v", d, e)
		}
		if d.Source >= n+4 || d.Target >= n+4 || d.Source < 0 || d.Target < 0 {
			t.Fatalf("%v of %d vertices", d, n+4)
		}
		if draw.Negative(2, k, e, among(n+4)) == d {
			again++
		}
	}
	if again > draws/2 {
		t.Errorf("%d of %d are those of the next epoch", again, draws)
	}
	sum := 0
	for _, count := range sources {
		sum += count
	}
	if sum != draws/2 {
		t.Errorf("%d of %d have another source", sum, draws)
	}
	for v := range 2 { // of two vertices only one is left
		if d := draw.Negative(1, v, links.Edge{Source: 0, Target: 1}, among(2)); d.Source != d.Target {
			t.Errorf("%v is drawn against 0→1 of two vertices", d)
		}
	}
}

// TestPart: as many edges fall to each part as its share says.
func TestPart(t *testing.T) {
	var counts [3]int
	const n = 300
	for u := range int32(n) {
		for v := range u {
			e := links.Edge{Source: u, Target: v}
			part := draw.Part(e)
			counts[part]++
			if back := draw.Part(links.Edge{Source: v, Target: u}); back != part {
				t.Fatalf("%d→%d is of part %d, and back of %d", u, v, part, back)
			}
		}
	}
	for part, share := range draw.Shares {
		if got := float64(counts[part]) * 100 / (n * (n - 1) / 2); math.Abs(got-share) > 1 {
			t.Errorf("%.2f %% of the edges are of part %d, want %v", got, part, share)
		}
	}
}
