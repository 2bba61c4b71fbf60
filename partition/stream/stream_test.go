package stream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/partition/metis"
)

// listed is a graph by its in-neighbour lists.
func listed(lists [][]int32) *Graph {
	return &Graph{Vertices: len(lists), Reader: func() func(int32) []int32 {
		return func(v int32) []int32 { return lists[v] }
	}}
}

// drawn is a small graph with self loops, duplicate edges and isolated vertices.
func drawn(t *rapid.T) [][]int32 {
	vertices := rapid.IntRange(2, 14).Draw(t, "vertices")
	lists := make([][]int32, vertices)
	for v := range lists {
		lists[v] = rapid.SliceOfN(rapid.Int32Range(0, int32(vertices-1)), 0, 8).Draw(t, "sources")
		slices.Sort(lists[v])
	}
	return lists
}

func unitWeight(int) int32 { return 1 }

func run(lists [][]int32, o Options) *passes {
	if o.Weights == nil {
		o.Weights = []func(v int) int32{unitWeight}
	}
	return &passes{ctx: context.Background(), Graph: listed(lists), Options: &o}
}

// haloRows counts pairs of a partition and a vertex of another that an edge into the partition comes from.
func haloRows(lists [][]int32, parts []int32) int {
	type row struct{ partition, vertex int32 }
	rows := map[row]bool{}
	for v, sources := range lists {
		for _, u := range sources {
			if parts[u] != parts[v] {
				rows[row{parts[v], u}] = true
			}
		}
	}
	return len(rows)
}

// TestBestLeavesTheFewestHaloRows: of all partitions of a group that a vertex may move to, best takes one
// that leaves the fewest halo rows, and keeps the vertex where it is if no move leaves fewer.
func TestBestLeavesTheFewestHaloRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := drawn(t)
		k := rapid.IntRange(2, min(5, len(lists))).Draw(t, "partitions")
		parts := rapid.SliceOfN(rapid.Int32Range(0, int32(k-1)), len(lists), len(lists)).Draw(t, "of")
		r := run(lists, Options{K: k}).refinement(parts)
		r.first = rapid.Int32Range(0, int32(k-1)).Draw(t, "first of the group")
		for v, sources := range lists {
			r.read(int32(v), parts[v], sources)
		}
		for v, sources := range lists {
			p := parts[v]
			got := r.best(int32(v), sources, new(counts))
			after := func(q int32) int {
				parts[v] = q
				defer func() { parts[v] = p }()
				return haloRows(lists, parts)
			}
			fewest := after(p)
			for q := range int32(k) {
				if min(p, q) >= r.first && r.vertices[p] > 1 && r.vertices[q] < int(r.limit[0]) {
					fewest = min(fewest, after(q))
				}
			}
			if after(got) != fewest || got != p && fewest == after(p) {
				t.Fatalf("%v in %v: vertex %d moves to %d and leaves %d halo rows, %d are possible", lists,
					parts, v, got, after(got), fewest)
			}
		}
	})
}

// TestRefineKeepsLoads: refinement takes no partition above the limit of any weight, empties none, and its
// counts are right at the end.
func TestRefineKeepsLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := drawn(t)
		k := rapid.IntRange(2, min(5, len(lists))).Draw(t, "partitions")
		parts := rapid.SliceOfN(rapid.Int32Range(0, int32(k-1)), len(lists), len(lists)).Draw(t, "of")
		degree := func(v int) int32 { return int32(len(lists[v])) }
		s := run(lists, Options{K: k, Weights: []func(v int) int32{unitWeight, degree}})
		loads := func() [2][]int64 {
			sums := [2][]int64{make([]int64, k), make([]int64, k)}
			for v, p := range parts {
				sums[0][p]++
				sums[1][p] += int64(degree(v))
			}
			return sums
		}
		before := loads()
		require.NoError(t, s.refine(parts))
		for c, after := range loads() {
			total := int64(0)
			for _, load := range after {
				total += load
			}
			for p, load := range after {
				if limit := int64(imbalance * float64(total) / float64(k)); load > max(limit, before[c][p]) {
					t.Errorf("partition %d has %d of weight %d, and had %d; the limit is %d", p, load, c,
						before[c][p], limit)
				}
				if c == 0 && load == 0 && before[c][p] > 0 {
					t.Errorf("partition %d lost its last vertex", p)
				}
			}
		}
	})
}

// TestClusters compares label propagation with the words of the paper: in each pass a vertex joins the
// cluster, among those with space, that most edges into it come from. After the first pass these are only
// vertices that would have moved before others of their block did.
func TestClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(100, 300).Draw(t, "vertices")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		lists := make([][]int32, n)
		for range 4 * n {
			v := r.IntN(n)
			lists[v] = append(lists[v], int32(min(max(v+r.IntN(9)-4, 0), n-1)))
		}
		for _, sources := range lists {
			slices.Sort(sources)
		}
		s := run(lists, Options{K: 2, Seed: 3})
		got, err := s.clusters()
		require.NoError(t, err)
		most := n / (2 * clustersEach) // vertices of a cluster
		want := make([]int32, n)
		for v := range want {
			want[v] = int32(v)
		}
		order := s.clustering()
		joins := func(v, pass int) int32 {
			order.pass = pass
			edges, size := map[int32]int{want[v]: 0}, map[int32]int{}
			for _, u := range lists[v] {
				if int(u) != v {
					edges[want[u]]++
				}
			}
			for _, c := range want {
				size[c]++
			}
			open := slices.DeleteFunc(slices.Sorted(maps.Keys(edges)),
				func(c int32) bool { return c != want[v] && size[c] >= most })
			return slices.MaxFunc(open, func(a, b int32) int {
				return cmp.Or(cmp.Compare(edges[a], edges[b]), cmp.Compare(order.tie(a), order.tie(b)))
			})
		}
		for pass := range clusterPasses {
			moves := make([]bool, n) // all vertices are of one block
			for v := range moves {
				moves[v] = pass == 0 || joins(v, pass) != want[v]
			}
			moved := 0
			for v := range want {
				if best := joins(v, pass); moves[v] && best != want[v] {
					want[v] = best
					moved++
				}
			}
			if moved < n/100 {
				break
			}
		}
		assert.Equal(t, want, got)
	})
}

// TestPack numbers clusters from 0 in the order of their first vertices, and joins them if there are too
// many.
func TestPack(t *testing.T) {
	label := []int32{3, 3, 1, 4, 1, 0}
	if n := pack(label, func(int) float32 {
		return 1
	}, 4); n != 4 || !slices.Equal(label, []int32{0, 0, 1, 2, 1, 3}) {
		t.Errorf("%d clusters: %v", n, label)
	}
	label = make([]int32, 1000)
	for v := range label {
		label[v] = int32(v)
	}
	n := pack(label, func(int) float32 { return .001 }, 50)
	size := make([]int, n)
	for _, c := range label {
		size[c]++
	}
	if n > 51 || slices.Max(size) > 40 || slices.Min(size) == 0 || !slices.IsSorted(label) {
		t.Errorf("1000 clusters became %d of %v vertices", n, size)
	}
}

// TestProblem compares the contracted graph with a simple construction.
func TestProblem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := drawn(t)
		label := rapid.SliceOfN(rapid.Int32Range(0, int32(min(4, len(lists)-1))), len(lists),
			len(lists)).Draw(t, "label")
		clusters := pack(label, func(int) float32 { return 1 }, 100)
		type pair struct{ a, b int32 }
		want, weights := map[pair]int32{}, make([]int32, clusters)
		for v, sources := range lists {
			weights[label[v]]++
			for _, u := range sources {
				if a, b := label[u], label[v]; a != b {
					want[pair{a, b}]++
					want[pair{b, a}]++
				}
			}
		}
		s := run(lists, Options{K: 2, Divide: func(p *metis.Problem) ([]int32, error) {
			got := map[pair]int32{}
			for a := range int32(clusters) {
				for i := p.Indptr[a]; i < p.Indptr[a+1]; i++ {
					got[pair{a, p.Neighbours[i]}] = p.EdgeWeights[i]
				}
			}
			assert.EqualBy(t, want, got, gocmp.AllowUnexported(pair{}))
			assert.Equal(t, weights, p.VertexWeights)
			return nil, nil
		}})
		_, err := s.divide(label, clusters)
		require.NoError(t, err)
	})
}

// TestPairsKeepTheHeaviest: a full table drops light pairs, never one with more edges than half of the
// others.
func TestPairsKeepTheHeaviest(t *testing.T) {
	table, r := pairs{most: 2048}, rand.New(rand.NewPCG(1, 2))
	for i := range 200_000 {
		table.add(1, int32(2+i%100))
		table.add(1000, int32(1001+r.IntN(1_000_000)))
		if table.used > table.most {
			t.Fatalf("%d pairs", table.used)
		}
	}
	for b := range int32(100) {
		assert.Equal(t, 2000, table.slot(1, 2+b).edges, "pair 1, %d", 2+b)
	}
}

// TestScaled: the sum is at most what was asked for, and small weights are not lost.
func TestScaled(t *testing.T) {
	for _, weights := range [][]int64{{1, 2, 3}, {0, 1, math.MaxInt32}, {1, 1 << 40, 1 << 39}, nil} {
		scale, sum := scaled(weights, math.MaxInt32), int64(0)
		for _, w := range weights {
			if sum += int64(scale(w)); (scale(w) == 0) != (w == 0) {
				t.Errorf("%v: %d becomes %d", weights, w, scale(w))
			}
		}
		if sum > math.MaxInt32 {
			t.Errorf("%v: the sum becomes %d", weights, sum)
		}
	}
	assert.Equal(t, 3, scaled([]int64{1, 2, 3}, math.MaxInt32)(3), "small weights change")
}

// ring is a graph of communities of ten vertices in a ring, and an edge from a random vertex into each.
func ring(vertices int) [][]int32 {
	r, lists := rand.New(rand.NewPCG(5, 6)), make([][]int32, vertices)
	for v := range lists {
		first := v - v%10
		for i := range 4 {
			lists[v] = append(lists[v], int32(first+(v+i+1)%10))
		}
		lists[v] = append(lists[v], int32(r.IntN(vertices)))
		slices.Sort(lists[v])
	}
	return lists
}

func byMetis(p *metis.Problem) ([]int32, error) { return p.Solve(context.Background(), 4, 0, 0) }

// TestMemory: what is in use in any pass is at most Memory.
func TestMemory(t *testing.T) {
	const vertices = 200_000
	lists := ring(vertices)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most := inUse(), int64(0)
	s := run(lists, Options{K: 4, Divide: byMetis})
	s.Progress = func(_ string, done, _ int64) {
		if done%(1<<16) == 0 {
			most = max(most, inUse()-before)
		}
	}
	_, err := Assign(s.ctx, s.Graph, s.Options)
	require.NoError(t, err)
	if limit := Memory(vertices, 5*vertices); most > limit {
		t.Errorf("%d bytes are in use, %d for each vertex; Memory says %d", most, most/vertices, limit)
	}
}

// TestSame: the same seed gives the same partitions, also of more than 64.
func TestSame(t *testing.T) {
	lists := ring(3000)
	for _, k := range []int{4, 100} {
		s := run(lists, Options{K: k, Seed: 7, Divide: func(p *metis.Problem) ([]int32, error) {
			return p.Solve(context.Background(), k, 7, 0)
		}})
		a, err := Assign(s.ctx, s.Graph, s.Options)
		require.NoError(t, err)
		b, err := Assign(s.ctx, s.Graph, s.Options)
		require.NoError(t, err, "%d partitions", k)
		assert.Equal(t, b, a, "%d partitions", k)
	}
}

// TestStops: no pass goes on when the context ends, and the error is its cause.
func TestStops(t *testing.T) {
	for _, at := range []string{
		"clustering, pass 1", "contracting", "refining, pass 1, halo rows", "refining, pass 1, moves",
	} {
		ctx, stop := context.WithCancelCause(context.Background())
		cause := errors.New("stopped")
		s := run(ring(40_000), Options{K: 4, Divide: byMetis})
		ended := ""
		s.Progress = func(pass string, _, _ int64) {
			if ended = pass; pass == at {
				stop(cause)
			}
		}
		if _, err := Assign(ctx, s.Graph, s.Options); !errors.Is(err, cause) || ended != at {
			t.Errorf("stopped while %s: error %v, while %s", at, err, ended)
		}
	}
}

// TestFewerHaloRows counts halo rows by the definition: vertices of others that the edges into a partition
// read, on more partitions than a group has.
func TestFewerHaloRows(t *testing.T) {
	const vertices, partitions = 300, 70
	r := rand.New(rand.NewPCG(8, 2))
	in := make([][]int32, vertices)
	for range 2000 {
		v := r.IntN(vertices)
		in[v] = append(in[v], r.Int32N(vertices))
	}
	for v := range in {
		slices.Sort(in[v])
	}
	random := func() (parts []int32, rows int) {
		for v := range vertices {
			parts = append(parts, int32((v+r.IntN(2))%partitions))
		}
		return parts, haloRows(in, parts)
	}
	s := run(in, Options{K: partitions})
	for range 20 {
		a, rowsOfA := random()
		b, rowsOfB := random()
		got, err := s.fewerHaloRows(a, b)
		require.NoError(t, err)
		if isB := &got[0] == &b[0]; isB != (rowsOfB < rowsOfA) {
			t.Errorf("took the second: %t, of %d and %d halo rows", isB, rowsOfA, rowsOfB)
		}
	}
}

// TestLastBatch: the batches of the last block of the largest graph, whose vertices end at the limit of
// int32.
func TestLastBatch(t *testing.T) {
	const first, last = math.MaxInt32 - 700, math.MaxInt32
	for i, want := range [][2]int32{{first, first + batch}, {first + batch, last}, {last, last}} {
		if begin, end := batchOf(first, last, i); begin != want[0] || end != want[1] {
			t.Errorf("batch %d: %d to %d, want %d to %d", i, begin, end, want[0], want[1])
		}
	}
}
