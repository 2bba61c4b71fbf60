package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

func chunked(t *testing.T, s *Share, o ChunkOptions) []int32 {
	t.Helper()
	chunks, err := Chunks(context.Background(), s, o)
	require.NoError(t, err, "%+v", o)
	require.Len(t, chunks, s.Edges.Types[0].Rows, "%+v", o)
	return chunks
}

// chunkSizes are the chunks' numbers of rows. It panics on a chunk outside 0…k−1.
func chunkSizes(chunks []int32, k int) []int { return sizes(&Assignment{K: k, Parts: chunks}) }

// linked is a graph of a few undirected edges.
func linked(t *testing.T, vertices int, ends ...[2]int32) *graph.Graph {
	t.Helper()
	var e graph.Edges
	for _, pair := range ends {
		e.Source, e.Target = append(e.Source, pair[0], pair[1]), append(e.Target, pair[1], pair[0])
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	return graph.Of(relation)
}

func TestChunksAreDetermined(t *testing.T) {
	s := All(communities(t, 800, 12000))
	for _, method := range ChunkMethods() {
		o := ChunkOptions{K: 8, Method: method, Seed: 3}
		first := chunked(t, s, o)
		assert.Equal(t, chunked(t, s, o), first, "%s: the same options gave other chunks", method)
		o.Seed = 4
		if slices.Equal(first, chunked(t, s, o)) {
			t.Errorf("%s: two seeds gave the same chunks", method)
		}
		assert.Equal(t, 0, slices.Max(chunked(t, s, ChunkOptions{K: 1, Method: method})),
			"%s: one chunk is not all rows", method)
	}
	assert.Equal(t, chunked(t, s, ChunkOptions{K: 8, Method: Metis}), chunked(t, s, ChunkOptions{K: 8}),
		"metis is not the default")
}

// Chunks have about equal weight, for similar and for different degrees.
func TestChunksBalance(t *testing.T) {
	for _, o := range []generate.Options{
		{Kind: generate.Uniform, Vertices: 4096, Degree: 16, Classes: 2},
		{Kind: generate.RMAT, Scale: 12, EdgeFactor: 16, Classes: 2},
	} {
		g, err := generate.Graph(o)
		require.NoError(t, err)
		for _, k := range []int{2, 7, 32} {
			weights, total, heaviest := make([]int64, k), int64(0), int64(0)
			for v, chunk := range chunked(t, All(g), ChunkOptions{K: k}) {
				weight := 50 + g.Relations[0].Indptr[v+1] - g.Relations[0].Indptr[v]
				weights[chunk] += weight
				total, heaviest = total+weight, max(heaviest, weight)
			}
			if most := slices.Max(weights); most > total/int64(k)*103/100+heaviest {
				t.Errorf("%s: %d of %d in the heaviest of %d chunks, the heaviest row has %d", o.Kind, most,
					total, k, heaviest)
			}
		}
	}
}

// TestChunksCut checks GNNPipe's order of the methods: minimum cut cuts the fewest edges, merged parts cut
// more, random chunks most.
func TestChunksCut(t *testing.T) {
	g := communities(t, 2000, 60000)
	s := All(g)
	cut := func(chunks []int32) int64 {
		cut, all := s.Edges.ChunkCut(chunks)
		assert.Equal(t, g.Edges(), all, "edges between rows of a graph")
		return cut
	}
	metis, merged := cut(chunked(t, s, ChunkOptions{K: 4})),
		cut(chunked(t, s, ChunkOptions{K: 4, Method: Merged}))
	if dealt := cut(random(2000, 4, 1)); metis*4/3 > merged || merged*4/3 > dealt {
		t.Errorf("metis cuts %d edges, merged %d, random %d", metis, merged, dealt)
	}
}

// Each merged chunk is four of METIS's parts.
func TestMergedChunksAreParts(t *testing.T) {
	s := All(communities(t, 800, 12000))
	parts, chunks := chunked(t, s, ChunkOptions{K: 20, Seed: 6}),
		chunked(t, s, ChunkOptions{K: 5, Method: Merged, Seed: 6})
	chunkOf := make(map[int32]int32)
	for row, part := range parts {
		if chunk, ok := chunkOf[part]; ok && chunk != chunks[row] {
			t.Fatalf("part %d is in chunks %d and %d", part, chunk, chunks[row])
		}
		chunkOf[part] = chunks[row]
	}
	merged := make([]int, 5)
	for _, chunk := range chunkOf {
		merged[chunk]++
	}
	assert.Equal(t, "", gocmp.Diff([]int{4, 4, 4, 4, 4}, merged), "parts in each chunk")
}

// Every chunk has rows, at least one: with few rows, with isolated ones, and beside a row heavier than all
// others.
func TestNoChunkIsEmpty(t *testing.T) {
	hub := graph.Edges{Source: make([]int32, 50000), Target: slices.Repeat([]int32{7}, 50000)}
	for k := range hub.Source {
		hub.Source[k] = int32(k % 200)
	}
	relation, err := graph.NewRelation(200, hub)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		g  *graph.Graph
		ks []int
	}{
		"one":       {linked(t, 1), []int{1}},
		"two":       {linked(t, 2, [2]int32{0, 1}), []int{1, 2}},
		"two apart": {linked(t, 2), []int{2}},
		"a path": {
			linked(t, 5, [2]int32{0, 1}, [2]int32{1, 2}, [2]int32{2, 3}, [2]int32{3, 4}), []int{2, 3, 4, 5},
		},
		"isolated":      {linked(t, 60), []int{2, 7, 59, 60}},
		"some isolated": {made(t, 100, 900, kinds["bare"], 3), []int{2, 9, 30, 100}},
		"crowded":       {communities(t, 300, 12000), []int{60, 299, 300}},
		"a hub":         {graph.Of(relation), []int{4, 10, 20}},
	} {
		for _, k := range test.ks {
			for _, method := range ChunkMethods() {
				chunks := chunked(t, All(test.g), ChunkOptions{K: k, Method: method})
				if n := chunkSizes(chunks, k); slices.Min(n) == 0 {
					t.Errorf("%s, %s: sizes %v", name, method, n)
				}
			}
		}
	}
}

// Only edges within a partition count, not those into others. Here each of two partitions has two cliques,
// and twice as many edges from each row into the other partition.
func TestChunksOfAPartition(t *testing.T) {
	const size = 20 // of a clique; vertex v is in partition v%2 and clique v/2%2 of it
	r := rand.New(rand.NewPCG(1, 1))
	var ends [][2]int32
	for u := range int32(4 * size) {
		for v := range u {
			if u%4 == v%4 {
				ends = append(ends, [2]int32{u, v})
			}
		}
		for range 2 * size {
			ends = append(ends, [2]int32{u, 2*int32(r.IntN(2*size)) + 1 - u%2})
		}
	}
	a := &Assignment{K: 2, Parts: make([]int32, 4*size)}
	for v := range a.Parts {
		a.Parts[v] = int32(v % 2)
	}
	shares, err := Split(linked(t, 4*size, ends...), a)
	require.NoError(t, err)
	for p, s := range shares {
		cut, all := s.Edges.ChunkCut(chunked(t, s, ChunkOptions{K: 2}))
		assert.Equal(t, 0, cut, "partition %d", p)
		assert.Equal(t, 2*size*(size-1), all, "partition %d", p)
	}
}

// TestOwnEdges compares the edges between a partition's rows, those from others, and the cut, with a simple
// count.
func TestOwnEdges(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 8))
		g := made(t, 1+r.IntN(15), r.IntN(90), kinds["dense"], seed)
		a := &Assignment{K: 1 + r.IntN(3), Parts: make([]int32, g.Vertices())}
		for v := range a.Parts {
			a.Parts[v] = int32(r.IntN(a.K))
		}
		shares, err := Split(g, a)
		require.NoError(t, err)
		whole := g.Relations[0].Edges()
		for p, s := range shares {
			chunks := random(s.Edges.Types[0].Rows, 3, seed)
			var want []edge
			wantCut, into := int64(0), int64(0)
			for k := range whole.Len() {
				from, inFrom := slices.BinarySearch(s.Edges.Types[0].IDs, whole.Source[k])
				to, inTo := slices.BinarySearch(s.Edges.Types[0].IDs, whole.Target[k])
				if inTo {
					into++
				}
				if !inFrom || !inTo {
					continue
				}
				want = append(want, edge{From: int32(from), To: int32(to)})
				if chunks[from] != chunks[to] {
					wantCut++
				}
			}
			own := s.Edges.own()
			ascending(t, own)
			var got []edge
			for k, e := 0, own.Edges(); k < e.Len(); k++ {
				got = append(got, edge{From: e.Source[k], To: e.Target[k]})
			}
			assert.Equal(t, "", gocmp.Diff(want, got), "partition %d of %d", p, a.K)
			cut, all := s.Edges.ChunkCut(chunks)
			assert.Equal(t, wantCut, cut, "partition %d of %d", p, a.K)
			assert.Equal(t, int64(len(want)), all, "partition %d of %d", p, a.K)
			if all, remote := s.Edges.Count(); all != into || remote != into-int64(len(want)) {
				t.Errorf("partition %d of %d: %d of %d edges are from others, want %d of %d", p, a.K, remote,
					all, into-int64(len(want)), into)
			}
		}
	}
}

// The same edges give the same chunks as one relation and as several.
func TestChunksOfRelations(t *testing.T) {
	g := communities(t, 400, 6000)
	single, several := All(g), All(g)
	several.Edges.Relations = nil
	all := g.Relations[0].Edges()
	for part := range 3 {
		var e graph.Edges
		for k := part; k < all.Len(); k += 3 {
			e.Source, e.Target = append(e.Source, all.Source[k]), append(e.Target, all.Target[k])
		}
		in, err := graph.NewRelation(400, e)
		require.NoError(t, err)
		several.Edges.Relations = append(several.Edges.Relations, Relation{Name: fmt.Sprint(part), In: in})
	}
	for _, method := range ChunkMethods() {
		o := ChunkOptions{K: 6, Method: method}
		want, got := chunked(t, single, o), chunked(t, several, o)
		assert.Equal(t, want, got, "%s: the chunks differ", method)
		wantCut, _ := single.Edges.ChunkCut(want)
		if cut, edges := several.Edges.ChunkCut(got); cut != wantCut || edges != g.Edges() {
			t.Errorf("%s: %d of %d edges are cut, want %d", method, cut, edges, wantCut)
		}
	}
}

func TestChunksOfNoRows(t *testing.T) {
	shares, err := Split(made(t, 12, 40, kinds["plain"], 4),
		&Assignment{K: 3, Parts: []int32{0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2}})
	require.NoError(t, err)
	for _, k := range []int{1, 2, 6} {
		for _, s := range shares {
			chunks := chunked(t, s, ChunkOptions{K: k})
			if s.Edges.Types[0].Rows > 0 && slices.Min(chunkSizes(chunks, k)) == 0 {
				t.Errorf("partition %d: chunks %v of %d", s.Edges.P, chunks, k)
			}
		}
	}
	if chunks := chunked(t, All(linked(t, 0)), ChunkOptions{K: 3}); chunks == nil {
		t.Error("no list of chunks")
	}
}

func TestChunksRefuse(t *testing.T) {
	whole := All(linked(t, 5, [2]int32{0, 1}))
	shares, err := Split(made(t, 12, 40, kinds["plain"], 4),
		&Assignment{K: 3, Parts: []int32{0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2}})
	require.NoError(t, err)
	large := All(graph.Of(graph.Relation{Indptr: []int64{0, 1 << 31, 1 << 31}}))
	fewer := "chunks 15: 5 in each partition, and partition 2 has 4 vertices; give at most 12"
	for _, test := range []struct {
		s    *Share
		o    ChunkOptions
		want string
	}{
		{whole, ChunkOptions{K: 6}, "chunks 6: 6 in each partition, and partition 0 has 5 vertices; " +
			"give at most 5"},
		{whole, ChunkOptions{K: 0}, "chunks 0: give at least 1, one in each partition"},
		{shares[0], ChunkOptions{K: 0, Method: Merged}, "chunks 0: give at least 3, one in each partition"},
		{whole, ChunkOptions{K: 2, Method: "mergd"}, `unknown chunk method "mergd"; did you mean merged?`},
		{shares[0], ChunkOptions{K: 5}, fewer},
		{shares[1], ChunkOptions{K: 5}, fewer},
		{shares[2], ChunkOptions{K: 5}, fewer},
		{large, ChunkOptions{K: 2}, "METIS counts vertices, edges and weights in 32 bits, up to " +
			"2147483647, and here are 2147483748; --chunks 1 does without it"},
	} {
		_, err := Chunks(context.Background(), test.s, test.o)
		assert.Refused(t, err, test.want, "%+v", test.o)
	}
}

func TestChunksStop(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if _, err := Chunks(ctx, All(linked(t, 50)), ChunkOptions{K: 2}); !errors.Is(err, stop) ||
		err.Error() != "stop" {
		t.Errorf("error %v", err)
	}
}

// TestChunksOfTheFewestRows: the refusal names the partition with the fewest rows, the first of several, and
// no empty one. For a number below one it quotes that number.
func TestChunksOfTheFewestRows(t *testing.T) {
	shares, err := Split(made(t, 12, 40, kinds["plain"], 4),
		&Assignment{K: 3, Parts: []int32{0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2}})
	require.NoError(t, err)
	equal, err := Split(made(t, 12, 40, kinds["plain"], 4),
		&Assignment{K: 3, Parts: []int32{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}})
	require.NoError(t, err)
	_, err = Chunks(context.Background(), equal[1], ChunkOptions{K: 5})
	assert.ErrorContains(t, err, "partition 0 has 4 vertices; give at most 12", "of equal partitions")
	for k, want := range map[int]string{
		5:  "chunks 15: 5 in each partition, and partition 0 has 4 vertices; give at most 12",
		-2: "chunks -6: give at least 3, one in each partition",
	} {
		_, err := Chunks(context.Background(), shares[2], ChunkOptions{K: k})
		assert.Refused(t, err, want)
	}
}

// TestMostPartitions accepts the largest allowed number of partitions.
func TestMostPartitions(t *testing.T) {
	for k, refused := range map[int]bool{0: true, 1: false, MaxPartitions: false, MaxPartitions + 1: true} {
		if err := (&Options{K: k, Method: Random}).Validate(); (err != nil) != refused {
			t.Errorf("%d partitions: %v", k, err)
		}
	}
}
